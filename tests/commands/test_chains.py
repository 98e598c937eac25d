"""`kvjobs submit --then`, and the commands on a chain, called in this process."""

import json
from pathlib import Path

import pytest

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.small_chains import KEPT, LINES, SCORED, begin, finish_all


@pytest.fixture
def corpus(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "{\n")
    return path


@pytest.mark.parametrize(
    ("stage", "code", "says"),
    [
        (
            "scoer --model x",
            2,
            "'scoer' is no stage (did you mean score?); write one of translate, score, generate, filter first",
        ),
        ("score --modle x", 2, "No such option '--modle'"),
        ("score --model nope", 5, "there is no model 'nope'"),
        (
            "score --model demo-en-zh --field text",
            2,
            "scores a translation given its source, and this stage reads none",
        ),
        ("score --beam-size 3", 2, "--beam-size is for --task translate, and the task is score"),
        ("score --stride 'x", 2, "its quotes do not match"),
        ("score --source-field x", 2, "is for reading a corpus; a stage reads one --field"),
        ("translate --via en", 2, "--via is for the first stage; write two stages that translate"),
        ("translate --model auto", 2, "--model auto is for the first stage; name a model here"),
        ("score --field generation", 2, "no stage before it makes a generation"),
        ("score --field nothing", 2, "'nothing' is not one of 'text', 'translation', 'generation'"),
        ("rerank", 2, "rerank needs a query with candidates"),
        ("filter", 2, "a filter needs a condition"),
        ("filter perplexity <", 2, "the condition ends in the middle"),
        ("filter perplexity < 50", 2, "no stage before the filter has a value 'perplexity'; --task score computes it"),
        ("filter translation", 2, "translation is a text, where a condition is needed"),
        (
            "filter perplexty < 50",
            2,
            "'perplexty' is no value of a stage before it and no field of",
        ),
    ],
)
def test_a_stage_that_is_not_possible_is_refused_before_anything_is_stored(
    kvjobs: Kvjobs, corpus: Path, stage: str, code: int, says: str
) -> None:
    refused = kvjobs("submit", corpus, "--then", stage)

    assert (refused.exit_code, refused.err.count(f"--then {stage!r}: ")) == (code, 1)
    assert says in refused.err
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
    assert "documents  3 of 7 documents ok, 4 skipped" in page
    assert "  2  job 2  score (lm): done, 6 of 7 documents ok, 1 skipped" in page
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

    assert "job 1 belongs to no chain; leave --chain out" in kvjobs("export", 1, "--chain").err
