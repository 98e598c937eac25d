"""Which folder a model name refers to, and the message about an unknown name."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import NotFoundError
from jobs.tasks.kinds import KINDS
from jobs.tasks.task import Task
from tests.model_folders import make_model
from worker.models import registry
from worker.models.model_folder import ModelFolder
from worker.models.registry import find_model, list_models


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    for name in ("opus-mt-en-de", "opus-mt-en-zh"):
        make_model(tmp_path / "models" / name)
    (tmp_path / "models" / "notes.txt").write_text("not a model")
    (tmp_path / "models" / ".cache").mkdir()
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "BUNDLED", {"demo-en-zh": tmp_path / "bundled", "demo-none": tmp_path / "none"})
    return make_model(tmp_path / "bundled")


def test_a_name_is_a_folder_of_the_users_models(models_dir):
    assert find_model("opus-mt-en-de", models_dir) == ModelFolder("opus-mt-en-de", models_dir / "opus-mt-en-de")


def test_a_bundled_model_is_found_without_a_models_folder(models_dir, bundled, tmp_path):
    assert find_model("demo-en-zh", tmp_path / "no-such-folder") == ModelFolder("demo-en-zh", bundled)


def test_a_users_model_hides_the_bundled_one_of_its_name(models_dir):
    mine = make_model(models_dir / "demo-en-zh")

    assert find_model("demo-en-zh", models_dir).path == mine
    assert [folder.path for folder in list_models(models_dir) if folder.name == "demo-en-zh"] == [mine]


def test_a_model_given_by_path_is_named_by_its_absolute_path(models_dir, monkeypatch):
    monkeypatch.chdir(models_dir)
    expected = models_dir / "opus-mt-en-de"

    for name in ("./opus-mt-en-de", "../models/opus-mt-en-de/", str(expected)):
        assert find_model(name, models_dir / "elsewhere") == ModelFolder(str(expected), expected)


def test_a_folder_in_the_current_folder_may_be_named_without_a_separator(models_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "export")

    assert find_model("export", models_dir).name == str(tmp_path / "export")
    assert find_model(".", models_dir).name == str(tmp_path)


def test_a_model_name_takes_precedence_over_a_folder_in_the_current_folder(models_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "opus-mt-en-de")

    assert find_model("opus-mt-en-de", models_dir).path == models_dir / "opus-mt-en-de"


def test_a_link_is_not_resolved(models_dir, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(models_dir / "opus-mt-en-de")

    assert find_model(str(link), models_dir).path == link


def test_an_unknown_name_is_refused_with_the_known_names(models_dir):
    with pytest.raises(NotFoundError) as caught:
        find_model("opus-mt-en-ze", models_dir)

    assert "mean opus-mt-en-" in str(caught.value)
    assert "demo-en-zh, opus-mt-en-de, opus-mt-en-zh" in str(caught.value)
    assert "demo-none" not in str(caught.value)


def test_a_hub_name_is_refused_with_how_to_add_it(models_dir):
    with pytest.raises(NotFoundError, match=r"'Helsinki-NLP/opus-mt-en-de'.*`kvjobs models add SOURCE`"):
        find_model("Helsinki-NLP/opus-mt-en-de", models_dir)


@pytest.mark.parametrize("name", ["", "\0", "a\0b", "x" * 300, "x/" * 3000, "\ud800", "notes.txt", ".cache", "~"])
def test_an_invalid_name_is_not_found(models_dir, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotFoundError):
        find_model(name, models_dir)


@given(st.lists(st.sampled_from(["..", ".", "/", "opus-mt-en-de", "models", "\\", "bundled"])).map("".join))
def test_a_plain_name_never_leaves_the_models_folder(name):
    if registry.is_model_name(name):
        assert os.path.normpath(os.path.join("/models", name)) == f"/models/{name}"
        assert os.path.dirname(f"/models/{name}") == "/models"


def test_every_listed_model_can_be_found(models_dir):
    listed = list_models(models_dir)

    assert [folder.name for folder in listed] == ["demo-en-zh", "opus-mt-en-de", "opus-mt-en-zh"]
    assert all(find_model(folder.name, models_dir) == folder for folder in listed)


def test_each_task_has_a_bundled_model():
    assert {task.value: KINDS[task].default_model for task in Task} == {
        "translate": "demo-en-zh",
        "score": "demo-lm",
        "rerank": "demo-lm",
        "generate": "demo-lm",
    }


def test_a_bundled_model_that_the_installation_lacks_is_reported(models_dir):
    with pytest.raises(NotFoundError, match=r"demo-none .*/none is missing"):
        find_model("demo-none", models_dir)
