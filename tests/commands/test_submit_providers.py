"""`kvjobs submit --providers`: who can do a job is asked and said at submit; what is stored of it."""

import hashlib
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobs.providers import ProviderOrder
from tests import stand_in_providers
from tests.causal_checkpoints import write_causal_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.providers import available


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny language model."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_causal_checkpoint(tmp_path_factory.mktemp("checkpoint"), "qwen2")
    add_model(Request(source=str(checkpoint), name="tiny"), folder)
    return folder / "tiny"


@pytest.fixture(autouse=True)
def corpus(home: Path, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of one text, the model tiny, and the providers of tests/stand_in_providers beside those that there
    are."""
    shutil.copytree(tiny, home / "models" / "tiny")
    monkeypatch.setattr(available, "__path__", [*available.__path__, *stand_in_providers.__path__])
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "a", "text": "It will rain in Arden."}) + "\n")
    return path


def score(kvjobs: Kvjobs, *options: object) -> Any:
    model = () if "--model" in options else ("--model", "tiny")
    return kvjobs("submit", "corpus.jsonl", "--task", "score", *model, *options)


def stored(home: Path) -> tuple[str, dict[str, Any]]:
    """The model and the providers of the newest job."""
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        row = connection.execute("select model, providers from jobs order by id desc limit 1").fetchone()
    return row[0], json.loads(ProviderOrder.from_json(row[1]).to_json())


def names(providers: dict[str, Any]) -> list[str]:
    return [choice["name"] for choice in providers["order"]]


def test_a_job_without_providers_is_answered_by_onnx_and_is_the_job_that_it_always_was(
    kvjobs: Kvjobs, home: Path
) -> None:
    """The digest is that of versions before providers: see `test_a_job_of_onnx_alone_keeps_its_digest`."""
    assert score(kvjobs).exit_code == 0
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        *parts, digest = connection.execute("select task, model_revision, options, options_digest from jobs").fetchone()

    assert stored(home)[1] == {"order": [{"name": "onnx"}], "fallback": True}
    assert hashlib.sha256("\n".join(parts).encode()).hexdigest() == digest
    assert score(kvjobs, "--providers", "onnx", "--no-fallback").exit_code == 0
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        assert connection.execute("select count(*) from jobs").fetchone() == (1,)


def test_the_order_and_the_names_of_the_model_are_stored(kvjobs: Kvjobs, home: Path) -> None:
    result = score(kvjobs, "--providers", "cloud:gpt-x, onnx")

    assert result.exit_code == 0
    assert stored(home) == (
        "tiny",
        {"order": [{"name": "cloud", "model": "gpt-x"}, {"name": "onnx"}], "fallback": True},
    )


def test_a_provider_that_cannot_do_the_job_is_skipped_with_a_line_that_says_why(kvjobs: Kvjobs, home: Path) -> None:
    result = kvjobs("submit", "corpus.jsonl", "--providers", "cloud,onnx")

    assert result.exit_code == 0
    assert line_with(result.err, "cloud is skipped", "translates nothing")
    assert stored(home)[1]["order"] == [{"name": "cloud", "skipped": "it translates nothing"}, {"name": "onnx"}]


def test_a_model_that_is_not_on_this_machine_is_one_of_the_servers(kvjobs: Kvjobs, home: Path) -> None:
    result = score(kvjobs, "--providers", "onnx,cloud", "--model", "Qwen/Qwen3-0.6B")

    assert result.exit_code == 0
    assert line_with(result.err, "onnx is skipped", "'Qwen/Qwen3-0.6B'")
    assert (stored(home)[0], names(stored(home)[1])) == ("Qwen/Qwen3-0.6B", ["onnx", "cloud"])
    assert score(kvjobs, "--providers", "cloud", "--model", "other").exit_code == 0
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        revisions = connection.execute("select model_revision from jobs").fetchall()
    assert len({len(revision) for (revision,) in revisions}) == 1
    assert len(set(revisions)) == 2


def test_a_folder_given_by_its_path_has_its_own_name_at_a_server(kvjobs: Kvjobs, home: Path, tiny: Path) -> None:
    shutil.copytree(tiny, "private")

    assert score(kvjobs, "--providers", "onnx,cloud", "--model", "./private").exit_code == 0
    assert stored(home)[1]["order"][1] == {"name": "cloud", "model": "private"}


def test_a_pair_is_never_sent_to_a_provider_that_scores_texts(kvjobs: Kvjobs, corpus: Path) -> None:
    corpus.write_text(json.dumps({"id": "a", "source": "It will rain.", "target": "将有雨。"}) + "\n")

    result = score(kvjobs, "--providers", "cloud,onnx", "--model", "demo-en-zh")

    assert result.exit_code == 0
    assert line_with(result.err, "cloud is skipped", "pairs")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--providers", "onnx", "--model", "none"], 5, "no model 'none'"),
        (["--providers", "cloud", "--task", "translate"], 2, "cloud cannot .*translates nothing"),
        (
            ["--providers", "onnx,cloud", "--task", "translate", "--model", "none"],
            2,
            "no provider can do this job; onnx: there is no model 'none'.*; cloud: it translates nothing",
        ),
        (["--providers", "cloud,onnx", "--task", "translate", "--no-fallback"], 2, "cloud cannot "),
        (["--providers", "onnx,cloud", "--model", "none", "--no-fallback"], 5, "no model 'none'"),
        (["--providers", "cluod"], 2, r"'cluod' .*mean cloud\?.*cloud, .*onnx"),
        (["--providers", "onnx:other"], 2, "--model names it"),
        (["--providers", "onnx,,onnx"], 2, "onnx .*twice"),
        (["--providers", ""], 2, "no provider"),
        (["--providers", "cloud", "--model", "a\x1b[2Jb"], 2, r"'a\\\\x1b\[2Jb' cannot be"),
        (["--providers", "cloud:" + "x" * 300], 2, "cannot be the name"),
        (["--providers", "llamacpp_twin:none"], 2, "llamacpp_twin:none cannot .*no model 'none'"),
    ],
)
def test_an_order_that_cannot_do_the_job_is_refused_with_every_reason(
    kvjobs: Kvjobs, home: Path, options: list[str], code: int, says: str
) -> None:
    result = kvjobs("submit", "corpus.jsonl", *options) if "--task" in options else score(kvjobs, *options)

    assert result.exit_code == code
    assert re.search(says, result.err), result.err
    assert not (home / "kvjobs.db").exists()


def test_without_fallback_only_the_first_provider_is_asked(kvjobs: Kvjobs, home: Path) -> None:
    result = score(kvjobs, "--providers", "cloud,onnx", "--model", "gpt-x", "--no-fallback")

    assert (result.exit_code, "skipped" in result.err) == (0, False)
    assert stored(home)[1] == {"order": [{"name": "cloud"}, {"name": "onnx"}], "fallback": False}


def test_the_settings_decide_by_task_and_name_the_counterparts(kvjobs: Kvjobs, home: Path, tiny: Path) -> None:
    (home / "kvjobs.toml").write_text(
        '[providers]\nscore = "onnx,cloud,llamacpp_twin"\n'
        '[counterparts."tiny"]\ncloud = "tiny-f32"\nllamacpp_twin = "mine"\n'
    )
    mine = home / "models" / "mine"
    shutil.copytree(tiny, mine)

    assert score(kvjobs).exit_code == 0
    onnx, cloud, twin = stored(home)[1]["order"]
    assert (onnx, cloud, twin["model"]) == ({"name": "onnx"}, {"name": "cloud", "model": "tiny-f32"}, "mine")
    before = twin["revision"]

    (mine / "config.json").write_text((mine / "config.json").read_text() + " ")
    assert score(kvjobs).exit_code == 0
    assert len(before) == 64
    assert stored(home)[1]["order"][2]["revision"] != before

    assert kvjobs("submit", "corpus.jsonl").exit_code == 0
    assert names(stored(home)[1]) == ["onnx"]
    assert score(kvjobs, "--providers", "cloud:explicit").exit_code == 0
    assert stored(home)[1]["order"] == [{"name": "cloud", "model": "explicit"}]


def test_a_counterpart_at_a_provider_that_does_not_exist_is_refused(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_COUNTERPARTS", '{"tiny": {"cluod": "x"}}')

    result = score(kvjobs)

    assert result.exit_code == 2
    assert line_with(result.err, "cluod", "providers are cloud")


def test_advice_about_onnx_is_not_given_where_onnx_does_not_run_the_job(
    kvjobs: Kvjobs, home: Path, tmp_path: Path
) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", "qwen2")
    add_model(Request(source=str(checkpoint), name="tiny", precision=Precision.INT8, force=True), home / "models")

    for providers, is_said in (("onnx", True), ("cloud,onnx", True), ("cloud", False)):
        assert ("is in int8" in score(kvjobs, "--providers", providers).err) is is_said


def test_a_dry_run_counts_with_the_tokenizer_of_this_machine_and_else_says_that_it_estimates(kvjobs: Kvjobs) -> None:
    local = score(kvjobs, "--providers", "cloud", "--dry-run")
    remote = score(kvjobs, "--providers", "cloud", "--model", "gpt-x", "--dry-run")
    other_kind = score(kvjobs, "--providers", "cloud", "--model", "demo-en-zh", "--dry-run", "--json")

    assert "the longest sequence" in local.out
    assert line_with(remote.out, "estimate", "gpt-x")
    assert (other_kind.json["tokens"], other_kind.json["estimated_tokens"] > 0) == (None, True)


def test_doctor_says_whether_each_provider_of_the_settings_is_ready(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_PROVIDERS", "onnx,cloud; score=llamacpp_twin; rerank=cluod")

    result = kvjobs("doctor", "--json")

    checks = {check["name"]: check for check in result.json["checks"] if check["name"].startswith("provider ")}
    assert {name: (check["ok"], check["found"][:25]) for name, check in checks.items()} == {
        "provider cloud": (False, "no key"),
        "provider llamacpp_twin": (True, "it exists, and cannot tel"),
        "provider cluod": (False, "there is no provider 'clu"),
    }
    assert result.exit_code == 1


def test_two_models_that_read_different_documents_do_not_answer_one_job(kvjobs: Kvjobs, home: Path) -> None:
    result = score(kvjobs, "--providers", "onnx,llamacpp_twin:demo-en-zh")

    assert result.exit_code == 0
    assert line_with(result.err, "llamacpp_twin:demo-en-zh is skipped", "other documents")


def test_a_queue_whose_device_onnx_cannot_use_is_refused_unless_another_provider_can_do_the_job(kvjobs: Kvjobs) -> None:
    alone = score(kvjobs, "--queue", "gpu")
    with_cloud = score(kvjobs, "--queue", "gpu", "--providers", "onnx,cloud")

    assert (alone.exit_code, "fp16" in alone.err) == (2, True)
    assert with_cloud.exit_code == 0
    assert line_with(with_cloud.err, "No document", "onnx", "model tiny")
