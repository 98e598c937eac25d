"""`kvjobs submit --then`, and the commands on a chain, called in this process."""

import json
from pathlib import Path

import pytest

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.small_chains import KEPT, LINES, SCORED, begin, finish_all


@pytest.fixture
def corpus(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "{\n")
    return path


@pytest.mark.parametrize(
    ("stage", "code", "facts"),
    [
        (
            "scoer --model x",
            2,
            ["'scoer'", "mean score?", "translate, score, generate", "filter"],
        ),
        ("score --modle x", 2, ["No such option '--modle'"]),
        ("score --model nope", 5, ["no model 'nope'"]),
        (
            "score --model demo-en-zh --field text",
            2,
            ["scores a translation", "reads none"],
        ),
        ("score --beam-size 3", 2, ["--beam-size", "--task translate", "task is score"]),
        ("score --stride 'x", 2, ["quotes"]),
        ("score --source-field x", 2, ["corpus", "--field"]),
        ("translate --via en", 2, ["--via", "first stage", "two stages"]),
        ("translate --model auto", 2, ["--model auto", "first stage"]),
        ("score --field generation", 2, ["no stage", "generation"]),
        ("score --field nothing", 2, ["'nothing'", "'text'", "'translation'", "'generation'"]),
        ("rerank", 2, ["rerank", "query", "candidates"]),
        ("filter", 2, ["filter", "condition"]),
        ("filter perplexity <", 2, ["condition ends"]),
        ("filter perplexity < 50", 2, ["no stage", "'perplexity'", "--task score"]),
        ("filter translation", 2, ["translation", "text", "condition"]),
        (
            "filter perplexty < 50",
            2,
            ["'perplexty'", "no value", "no field"],
        ),
    ],
)
def test_a_stage_that_is_not_possible_is_refused_before_anything_is_stored(
    kvjobs: Kvjobs, corpus: Path, stage: str, code: int, facts: list[str]
) -> None:
    refused = kvjobs("submit", corpus, "--then", stage)

    assert (refused.exit_code, refused.err.count(f"--then {stage!r}: ")) == (code, 1)
    assert line_with(refused.err, *facts)
    assert kvjobs("ls", "-q").out == ""


def test_the_message_names_which_of_several_stages_it_is_about(kvjobs: Kvjobs, corpus: Path) -> None:
    assert "--then 2, 'filter 3': " in kvjobs("submit", corpus, "--then", "translate", "--then", "filter 3").err


def test_the_list_of_jobs_shows_a_dash_where_a_filter_has_no_model(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED, KEPT)

    listed = kvjobs("ls").out.splitlines()[1:]

    assert [line.split()[-4] for line in listed if "filter" in line] == ["-"], listed  # before priority, day and time


def test_a_stage_alone_is_exported_and_shown_by_its_number(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    finish_all(database)

    scores = [json.loads(line) for line in kvjobs("export", 2).out.splitlines()]
    assert [one["id"] for one in scores] == [f"d{n}" for n in range(6)]
    kept = kvjobs("export", 3, "--format", "original").out.splitlines()
    assert [json.loads(line) for line in kept] == [LINES[0], LINES[3], LINES[5]], (
        "the lines of the corpus that were kept"
    )
    (tmp_path / "corpus.jsonl").unlink()
    rewritten = kvjobs("export", 3, "--format", "original").out.splitlines()
    assert [json.loads(line)["text"] for line in rewritten] == ["text 0", "text 3", "text 5"], "not the translations"
    page = kvjobs("show", 3).out
    assert line_with(page, "documents ", "3 of 7 ", "4 skipped")
    assert line_with(page, "  2  job 2 ", "score (lm)", "done", "6 of 7 ", "1 skipped")
    assert kvjobs("db", "check").exit_code == 0


def test_the_exit_code_is_that_of_the_worst_stage(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    assert kvjobs("wait", 2, "--timeout", 0).exit_code == 4
    finish_all(database)

    assert kvjobs("wait", 2).exit_code == 3, "a line was rejected"
    accepted = kvjobs("wait", 3, "--max-rejected", 1, "--json")
    assert (accepted.exit_code, [stage["skipped"] for stage in accepted.json["stages"]]) == (0, [0, 1, 4])


def test_what_is_no_chain_has_no_export_of_one(kvjobs: Kvjobs, corpus: Path) -> None:
    kvjobs("submit", corpus)

    assert line_with(kvjobs("export", 1, "--chain").err, "job 1 ", "--chain")
