"""`kvjobs doctor`: each problem is found, and shown with a cure that works."""

import importlib.metadata
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.cli.commands import doctor
from jobs.system.private import is_readable_by_others
from tests.command_line import Kvjobs
from tests.messages import line_with


def checks(kvjobs: Kvjobs) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in kvjobs("doctor", "--json").json["checks"]}


def test_doctor_changes_nothing(kvjobs: Kvjobs, home: Path) -> None:
    found = checks(kvjobs)

    assert list(home.iterdir()) == []
    for name in ("python", "package jobs", "package worker", "sqlalchemy", "sqlite", "machine", "home", "database"):
        assert found[name]["ok"], found[name]
    assert "first submit" in found["database"]["found"]


def test_a_problem_is_shown_with_its_cure(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OLDEST_SQLITE", (99, 0, 0))

    result = kvjobs("doctor")

    assert result.exit_code == 1
    assert "PROBLEM  sqlite" in result.out
    assert line_with(result.out, "-> ", "SQLite 99.0.0")


def test_a_missing_or_outdated_dependency_is_named(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["click>=8.2", "rich>=999.1", "no-such-distribution>=1", "torch>=2; extra == 'train'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: required)

    found = checks(kvjobs)

    assert found["click"]["ok"]
    assert not found["rich"]["ok"]
    assert found["no-such-distribution"]["found"] == "not installed"
    assert found["no-such-distribution"]["mend"] == "pip install 'no-such-distribution>=1'"
    assert "torch" not in found


def test_the_gpu_build_satisfies_the_dependency_on_onnxruntime(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: ["onnxruntime>=1.22"])

    def of_the_gpu_build(name: str) -> str:
        if name == "onnxruntime":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.31.1" if name == "onnxruntime-gpu" else version(name)

    monkeypatch.setattr(importlib.metadata, "version", of_the_gpu_build)

    assert checks(kvjobs)["onnxruntime"]["ok"]


def test_another_distribution_with_the_same_package_name_is_reported(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    providers = {"worker": ["kvjobs", "worker"], "jobs": ["kvjobs"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: providers)

    found = checks(kvjobs)

    assert found["package jobs"]["ok"]
    assert found["package worker"]["mend"] == "pip uninstall worker"


def test_a_package_in_the_current_folder_that_shadows_kvjobs_is_reported(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = SimpleNamespace(origin=str(tmp_path / "worker" / "__init__.py"))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: elsewhere if name == "worker" else None)

    found = checks(kvjobs)["package worker"]

    assert not found["ok"]
    assert str(tmp_path) in found["found"]


def test_a_full_disk_and_an_impossible_home_folder_are_reported(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE_DISK", 1 << 80)
    assert not checks(kvjobs)["disk"]["ok"]

    (tmp_path / "file").touch()
    monkeypatch.setenv("KVJOBS_HOME", str(tmp_path / "file"))
    assert "Not a directory" in checks(kvjobs)["settings"]["found"]


def test_invalid_settings_do_not_stop_the_other_checks(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVJOBS_LANES", "many")

    found = checks(kvjobs)

    assert "whole number" in found["settings"]["found"]
    assert found["python"]["ok"]


def test_a_model_folder_that_lacks_a_file_is_reported(kvjobs: Kvjobs, home: Path) -> None:
    (home / "models" / "half").mkdir(parents=True)

    found = checks(kvjobs)["model half"]

    assert not found["ok"]
    assert "config.json" in found["found"]


def test_an_outdated_database_is_reported(kvjobs: Kvjobs, home: Path) -> None:
    (home / "kvjobs.db").touch()

    found = checks(kvjobs)["database"]

    assert not found["ok"]
    assert found["mend"] == "kvjobs db upgrade"


def test_a_database_that_other_users_can_read_is_reported(kvjobs: Kvjobs, home: Path) -> None:
    for folder in (home, *home.parents):
        if folder.owner() == Path.home().owner() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    file = home / "kvjobs.db"
    sqlite3.connect(file).close()
    file.touch()
    file.chmod(0o644)

    found = {check["name"]: check for check in kvjobs("doctor", "--json").json["checks"]}["database files"]

    assert (found["ok"], found["is_warning"], found["mend"]) == (True, True, f"chmod 600 {file}")

    home.chmod(0o700)  # other users cannot enter the folder
    assert not is_readable_by_others(file)
    assert "database files" not in kvjobs("doctor").out


def test_a_job_whose_glossary_is_gone_is_named(kvjobs: Kvjobs, tmp_path: Path, home: Path) -> None:
    (tmp_path / "terms.tsv").write_text("rain\tRegen\n")
    (tmp_path / "corpus.jsonl").write_text('{"text": "Rain."}\n')
    job = kvjobs("submit", tmp_path / "corpus.jsonl", "--glossary", tmp_path / "terms.tsv", "--json").json["job_id"]
    assert (checks(kvjobs)["glossaries"]["ok"], checks(kvjobs)["glossaries"]["found"][:2]) == (True, "1 ")

    with closing(sqlite3.connect(home / "kvjobs.db")) as connection, connection:
        connection.execute("delete from glossaries")

    found = checks(kvjobs)["glossaries"]
    assert (found["ok"], f"({job})" in found["found"], f"cancel {job}," in found["mend"]) == (False, True, True)
