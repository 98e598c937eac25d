"""`kvjobs submit`, called in this process: its messages and exit codes."""

import io
import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import wait_for_job
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.queue import leases
from tests.command_line import Kvjobs
from tests.commands.corpora import corpus_of
from tests.messages import line_with

# refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["."], 2, "several formats|no suffix of a known format"),
        (["empty.jsonl"], 2, "empty|no document"),
        (["corpus.jsonl", "empty.jsonl"], 2, "name one corpus, not 2; .* a pattern in quotes"),
        (["corpus.jsonl", "--model", "no-such-model"], 5, "demo-en-zh"),
        (["corpus.jsonl", "--model", "./half"], 2, "encoder_model.onnx"),
        (["corpus.jsonl", "--task", "summarise"], 2, "translate"),
        (["corpus.jsonl", "--target-language", "fra"], 2, "single|one target language|no language"),
        (["corpus.jsonl", "--cache", "maybe"], 2, "hybrid:N"),
        (["corpus.jsonl", "--beam-size", "0"], 2, "greedy"),
        (["corpus.jsonl", "--n-best", "5", "--beam-size", "2"], 2, "beam-size"),
        (["corpus.jsonl", "--n-best", "5", "--wait"], 2, "keeps 1: give --beam-size 5"),
        (["corpus.jsonl", "-o", "out.jsonl"], 2, "--wait"),
        (["corpus.jsonl", "--wait", "-o", "corpus.jsonl"], 2, "corpus itself"),
        (["corpus.jsonl", "--wait", "-o", "missing/out.jsonl"], 2, "mkdir"),
        (["corpus.jsonl", "--name", "7"], 2, "number"),
        (["corpus.jsonl", "--task", "generate", "--model", "demo-lm", "--system", "Hi"], 2, "give --chat as well"),
        (["corpus.jsonl", "--task", "generate", "--model", "demo-lm", "--top-k", "5"], 2, "give --temperature 1"),
        (["corpus.jsonl", "--task", "generate", "--model", "demo-en-zh"], 2, "causal language model"),
        (["corpus.jsonl", "--task", "generate", "--model", "demo-lm", "--beam-size", "2"], 2, "for --task translate"),
        (["corpus.jsonl", "--task", "score", "--model", "demo-lm", "--stop", "."], 2, "--stop is for --task generate"),
    ],
)
def test_an_impossible_submit_ends_with_one_sentence_and_its_exit_code(
    kvjobs: Kvjobs, database: Database, corpus: Path, arguments: list[str], code: int, says: str
) -> None:
    Path("empty.jsonl").touch()
    Path("half").mkdir()
    Path("half/config.json").write_text("{}")

    refused = kvjobs("submit", *arguments)

    assert (refused.exit_code, refused.out) == (code, ""), refused.err
    assert re.search(says, refused.err)
    assert "Traceback" not in refused.err
    assert kvjobs("ls", "--all", "-q").out == ""


def test_a_database_that_another_program_locks_is_an_operational_failure(
    kvjobs: Kvjobs, database: Database, corpus: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_BUSY_TIMEOUT_S", "0.2")
    with closing(sqlite3.connect(home / "kvjobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        refused = kvjobs("submit", corpus)

    assert refused.exit_code == 1
    assert "locked" in refused.err
    assert kvjobs("submit", corpus).exit_code == 0


# cancelled ----------------------------------------------------------------------------------------------------------


def test_submitting_a_cancelled_job_is_refused_with_the_commands_that_continue_it(
    kvjobs: Kvjobs, database: Database, corpus: Path
) -> None:
    kvjobs("submit", corpus)
    jobs.cancel(database, 1)

    refused = kvjobs("submit", corpus, "--wait")

    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.splitlines()[-1] == (
        "Error: job 1 has this corpus and these options, and was cancelled; to continue it: kvjobs retry 1, and for a "
        "new job submit with --again"
    )
    assert kvjobs("retry", 1).exit_code == 0
    assert kvjobs("submit", corpus).exit_code == 0


def test_submitting_a_job_that_is_being_cancelled_is_refused_too(
    kvjobs: Kvjobs, database: Database, corpus: Path
) -> None:
    kvjobs("submit", corpus)
    assert leases.lease(database, 1, 0, 60.0) is not None
    jobs.cancel(database, 1)

    assert kvjobs("submit", corpus).exit_code == 2


def test_submitting_a_paused_job_says_that_it_is_paused(kvjobs: Kvjobs, database: Database, corpus: Path) -> None:
    kvjobs("submit", corpus)
    kvjobs("pause", 1, "--reason", "the disk is full")

    result = kvjobs("submit", corpus)

    assert result.exit_code == 0
    assert result.err.splitlines()[-2:] == [
        "Job 1: 0 of 2 documents ok, 2 waiting; it was submitted before and is paused (the disk is full). "
        "(--again makes a new job.)",
        "To resume it: kvjobs resume 1",
    ]


def test_a_job_with_a_name_keeps_it_and_this_is_reported(kvjobs: Kvjobs, database: Database, corpus: Path) -> None:
    assert "name" not in kvjobs("submit", corpus, "--name", "nightly").err
    assert "name" not in kvjobs("submit", corpus, "--name", "nightly").err

    result = kvjobs("submit", corpus, "--name", "weekly")

    assert line_with(result.err, "'nightly'", "'weekly'")


def test_after_an_interrupt_the_input_of_a_pipe_has_to_be_sent_again(
    kvjobs: Kvjobs, database: Database, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.operations.submit.submit", interrupted)

    assert line_with(kvjobs("submit", corpus).err, "kept", "continue: ")
    assert line_with(kvjobs("submit", "-").err, "Interrupted", "same input")


def test_a_key_names_the_job_whatever_its_corpus_holds(kvjobs: Kvjobs, corpus: Path, tmp_path: Path) -> None:
    assert kvjobs("submit", corpus, "--key", "night 7", "-q").out == "1\n"
    (other := tmp_path / "other.jsonl").write_text('{"id": "x", "text": "Another text."}\n')

    assert kvjobs("submit", other, "--key", "night 7", "-q").out == "1\n"
    assert kvjobs("submit", other, "--key", "night 8", "-q").out == "2\n"

    refused = kvjobs("submit", corpus, "--key", "night 7", "--beam-size", "2", "-q")
    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "'night 7'", "job 1")
    assert kvjobs("submit", corpus, "--key", "a", "--again").exit_code == 2


# scripts ------------------------------------------------------------------------------------------------------------


def test_quiet_prints_only_the_job_number_in_every_case(kvjobs: Kvjobs, database: Database, corpus: Path) -> None:
    for _ in range(2):
        result = kvjobs("submit", corpus, "-q")
        assert (result.exit_code, result.out, result.err) == (0, "1\n", "")

    refused = kvjobs("submit", corpus, "-q", "--beam-size", "0")
    assert (refused.exit_code, refused.out) == (2, "")
    assert line_with(refused.err, "'--beam-size': 0 ", "from 1")


def test_json_prints_the_job_on_one_line_and_messages_as_json_on_standard_error(
    kvjobs: Kvjobs, database: Database, corpus: Path
) -> None:
    result = kvjobs("submit", corpus, "--json", "--name", "nightly")

    assert result.out.count("\n") == 1
    assert (
        result.json.items()
        >= {
            "job_id": 1,
            "name": "nightly",
            "shown_state": "waiting",
            "documents": 2,
            "rejected": 0,
            "waiting": 2,
            "already": "new",
            "output": None,
            "exit_code": 0,
        }.items()
    )
    assert kvjobs("ls", "--json").json[0].keys() < result.json.keys()
    assert all(json.loads(line).keys() == {"message"} for line in result.err.splitlines())
    assert kvjobs("submit", corpus, "--json").json["already"] == "running"


def test_a_file_of_results_in_an_unknown_format_is_refused_before_the_work(
    kvjobs: Kvjobs, database: Database, corpus: Path, tmp_path: Path
) -> None:
    refused = kvjobs("submit", corpus, "--wait", "-o", tmp_path / "out.xlsx")

    assert refused.exit_code == 2
    assert line_with(refused.err, "not written", ".xlsx")
    assert kvjobs("ls", "-q").out == ""
    kvjobs("submit", corpus)
    assert kvjobs("watch", "last", "--work", "-o", tmp_path / "out.xlsx").exit_code == 2
    assert kvjobs("export", "last", "-o", tmp_path / "out.srt").exit_code == 2
    assert kvjobs("export", "last", "-o", tmp_path / "out.xlsx", "--format", "csv").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-q", "--json"], "--json .*-q "),
        (["-q", "--wait"], "-q .*standard output.*-o FILE"),
        (["--json", "--wait", "-o", "-"], "--json .*standard output.*-o FILE"),
        (["-q", "--dry-run"], "--dry-run .*no job"),
        (["--strict", "--max-rejected", "1"], "--strict .*--max-rejected 0"),
    ],
)
def test_options_that_compete_for_standard_output_are_refused(
    kvjobs: Kvjobs, database: Database, corpus: Path, arguments: list[str], says: str
) -> None:
    refused = kvjobs("submit", corpus, *arguments)

    assert (refused.exit_code, refused.out) == (2, "")
    assert re.search(says, refused.err)
    assert kvjobs("ls", "-q").out == ""
    if "--json" in arguments:
        assert json.loads(refused.err.splitlines()[-1])["error"]["code"] == "refused"


def test_a_dry_run_with_json_is_an_object(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "c.jsonl", "It will rain in Arden.", None)

    result = kvjobs("submit", corpus, "--dry-run", "--json")

    assert (result.exit_code, result.json["dry_run"]) == (0, True)
    counts = {name: result.json[name] for name in ("documents", "rejected", "segments", "shards", "estimated_s")}
    assert counts == {"documents": 2, "rejected": 1, "segments": 1, "shards": 1, "estimated_s": None}
    assert result.json["rejected_lines"][0]["line"] == 2
    assert sum(bucket["number"] for bucket in result.json["histogram"]) == 1


def test_commands_that_change_a_job_print_its_new_state(kvjobs: Kvjobs, running_job: int) -> None:
    def changed(command: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        job = kvjobs(command, running_job, "--json").json
        return tuple(job[name] for name in ("job_id", "shown_state", "exit_code")), job

    state, _ = changed("pause")
    assert state == (running_job, "paused", 0)
    state, job = changed("resume")
    assert (state, job["was_paused"]) == ((running_job, "waiting", 0), True)
    state, job = changed("cancel")
    assert (state, job["changed"], job["cancelled"]) == ((running_job, "cancelled", 0), 1, 1)
    assert kvjobs("wait", running_job, "--json").json["exit_code"] == 3
    assert kvjobs("watch", running_job, "--json").json["shown_state"] == "cancelled"
    state, job = changed("retry")
    assert (state, job["changed"], job["waiting"]) == ((running_job, "waiting", 0), 2, 2)
    late = kvjobs("wait", running_job, "--json", "--timeout", "0")
    assert (late.exit_code, late.json["exit_code"], late.json["finished_at"]) == (4, 4, None)


# interrupted --------------------------------------------------------------------------------------------------------


def test_an_interrupted_wait_suggests_a_command_with_the_same_result(
    kvjobs: Kvjobs, database: Database, corpus: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wait_for_job, "follow_chain", interrupted)

    def advice(*options: str) -> str:
        result = kvjobs(f"--home={home}", "submit", corpus, "--wait", *options)
        assert (result.exit_code, result.out) == (130, "")
        return result.err.splitlines()[-1]

    watch = f"kvjobs --home={home} watch"
    assert advice("--again") == f"Interrupted; finished documents are kept. To continue: {watch} 1 --work -o -"
    assert advice("--again", "-o", "my out.jsonl", "--max-rejected", "5%").endswith(
        f"To continue: {watch} 2 --work -o 'my out.jsonl' --max-rejected 5%"
    )
    assert json.loads(advice("-o", "x.jsonl", "--json"))["error"] == {
        "code": "interrupted",
        "message": f"Interrupted; finished documents are kept. To continue: {watch} 1 --work -o x.jsonl --json",
        "hint": f"{watch} 1 --work -o x.jsonl --json",
    }


def test_watch_with_work_writes_the_results_as_submit_wait_does(kvjobs: Kvjobs, finished_job: int, home: Path) -> None:
    result = kvjobs("watch", finished_job, "--work", "-o", "out.jsonl", "--json")

    assert (result.exit_code, result.json["output"]) == (0, "out.jsonl")
    assert Path("out.jsonl").read_text() == kvjobs("export", finished_job).out
    assert kvjobs("watch", finished_job, "--work", "-o", "-").out == kvjobs("export", finished_job).out
    assert kvjobs("watch", finished_job, "--work").out == ""
    assert "kvjobs export JOB -o FILE" in kvjobs("watch", finished_job, "-o", "out.jsonl").err


def test_a_wait_for_a_job_that_is_cancelled_writes_no_results(
    kvjobs: Kvjobs, database: Database, running_job: int
) -> None:
    jobs.cancel(database, running_job)

    result = kvjobs("watch", running_job, "--work", "-o", "out.jsonl")

    assert result.exit_code == 3
    assert not Path("out.jsonl").exists()
    assert line_with(result.err, "cancelled: ", "2 of 4 ", "1 failed", "1 cancelled", "no results")
    assert f"kvjobs retry {running_job}" in result.err


def test_a_submit_from_a_terminal_says_how_to_end_the_input(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b'{"id": 1, "text": "Rain."}\n')))

    result = kvjobs("submit", "-")

    assert (result.exit_code, "Ctrl-D" in result.err) == (0, True)
