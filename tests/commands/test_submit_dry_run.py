"""`kvjobs submit --dry-run`: counts of what the model would read; and fields that a model cannot score."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.causal_checkpoints import write_causal_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from worker.model_tools.add.add import Request, add_model

PAIR = json.dumps({"source": "It will rain in Arden.", "target": "雅顿将有雨。"})

QUERY = json.dumps({"query": "hello", "candidates": [{"id": "a", "text": "hello world"}, {"id": "b", "text": "word"}]})


class NoMemory:
    """A result memory that is always empty."""

    digest = b""

    def recall(self, keys: Any) -> dict[bytes, Any]:
        return {}

    recall_scores = recall


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with a tiny causal model."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_causal_checkpoint(tmp_path_factory.mktemp("checkpoint"), "qwen2")
    add_model(Request(source=str(checkpoint), name="tiny"), folder)
    return folder


# dry runs ------------------------------------------------------------------------------------------------------------


LINES = {
    "text.jsonl": '{"text": "hello world"}\n{"text": "' + "hello " * 200 + '"}\nnot json\n',
    "pairs.jsonl": PAIR + "\n",
    "queries.jsonl": QUERY + "\n",
}


@pytest.mark.parametrize(
    ("name", "task", "model", "says"),
    [
        ("text.jsonl", "score", "tiny", ["documents   2, and 1 rejected line", "too long    1 for the model"]),
        ("pairs.jsonl", "score", "demo-en-zh", ["documents   1\n", "tokens      17, the longest sequence 9"]),
        ("queries.jsonl", "rerank", "tiny", ["queries     1\n", "candidates  2, each read with its query"]),
    ],
)
def test_a_dry_run_counts_what_the_model_would_read(
    kvjobs: Kvjobs, home: Path, models_dir: Path, name: str, task: str, model: str, says: list[str]
) -> None:
    (home / "models").symlink_to(models_dir)
    Path(name).write_text(LINES[name], encoding="utf-8")

    dry_run = kvjobs("submit", name, "--task", task, "--model", model, "--dry-run")

    assert dry_run.exit_code == 0, dry_run.err
    for line in says:
        assert line in dry_run.out
    assert kvjobs("ls", "--json").json == []


def test_a_dry_run_says_which_stages_it_does_not_count(kvjobs: Kvjobs, home: Path, models_dir: Path) -> None:
    (home / "models").symlink_to(models_dir)
    Path("a.jsonl").write_text(LINES["text.jsonl"], encoding="utf-8")
    stages = ["--then", "filter perplexity < 50", "--then", "translate --model demo-en-zh"]
    command = ["submit", "a.jsonl", "--task", "score", "--model", "tiny", *stages, "--dry-run"]

    lines = kvjobs(*command).out.splitlines()
    record = kvjobs(*command, "--json").json

    assert lines[0] == "documents   2, and 1 rejected line"
    assert lines[-2:] == [
        "stage 2     filter: possible, and not counted above",
        "stage 3     translate (demo-en-zh): possible, and not counted above",
    ]
    assert record["stages_not_counted"] == [
        {"stage": 2, "task": "filter", "model": "none"},
        {"stage": 3, "task": "translate", "model": "demo-en-zh"},
    ]


def test_a_dry_run_refuses_a_field_that_a_submit_would_refuse(kvjobs: Kvjobs, home: Path, models_dir: Path) -> None:
    (home / "models").symlink_to(models_dir)
    Path("a.jsonl").write_text(LINES["text.jsonl"], encoding="utf-8")
    command = ["submit", "a.jsonl", "--task", "score", "--model", "tiny", "--then", "filter lnag = 'en'"]

    refused = kvjobs(*command, "--dry-run")

    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "'lnag'", "no field")
    assert kvjobs(*command).err == refused.err


def test_fields_for_another_kind_of_model_are_refused(kvjobs: Kvjobs, home: Path, models_dir: Path) -> None:
    (home / "models").symlink_to(models_dir)
    Path("a.jsonl").write_text(LINES["text.jsonl"], encoding="utf-8")

    for model, flag in (("tiny", "--source-field"), ("demo-en-zh", "--text-field")):
        refused = kvjobs("submit", "a.jsonl", "--task", "score", "--model", model, flag, "x")
        assert refused.exit_code == 2
        assert line_with(refused.err, f"{flag} ", "no meaning", f"{model}")
