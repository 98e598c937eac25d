"""How many lines of a corpus may be rejected: `--max-rejected` of a submit, and of the commands after it."""

from pathlib import Path

import pytest
from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus, JobState
from jobs.store.schema.tables import Job, JobCounts
from tests.command_line import Kvjobs
from tests.commands.corpora import corpus_of
from tests.messages import line_with
from tests.rows import AddJob, Line


def test_a_dry_run_rejects_the_same_lines_as_a_submit(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    ids = ["a", "b", "a", "", "c", "4", "", "8", "7", "b", "a"]
    rows = [f'{row_id},"It will rain in Arden on line {line}."' for line, row_id in enumerate(ids, 2)]
    corpus = tmp_path / "c.csv"
    corpus.write_text("\n".join(["id,text", *rows[:6], "x,", *rows[6:], "x,It will snow."]))

    dry_run = kvjobs("submit", corpus, "--dry-run", "--json").json
    result = kvjobs("submit", corpus, "--dry-run").out
    kvjobs("submit", corpus)

    (job,) = kvjobs("ls", "--json").json
    sql = "select line, error from v_documents where status = 'rejected' order by position"
    assert dry_run["rejected_lines"] == kvjobs("query", sql, "--json").json
    assert (dry_run["documents"], dry_run["rejected"]) == (job["documents"], job["rejected"])
    assert dry_run["shards"] == job["shards"]
    assert dry_run["estimated_tokens"] == job["estimated_tokens"]
    assert line_with(result, "ids ", "2 documents", "line number")
    assert line_with(result, "the id 'a'", "line 2;")


def test_a_line_without_an_id_whose_line_number_is_taken_is_rejected_with_the_reason(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    corpus = tmp_path / "c.csv"
    corpus.write_text("id,text\n3,one\n,two\n,three\nb,four\n")

    assert line_with(kvjobs("submit", corpus).err, "2 documents", "line number")
    (rejected,) = kvjobs("query", "select error from v_documents where status = 'rejected'", "--json").json
    assert rejected["error"] == (
        "the line has no id, and its line number 3, used as id, was used before, on line 2; give it one"
    )


@pytest.mark.parametrize(("allowed", "is_taken"), [("39%", False), ("2", True)])
def test_a_corpus_with_more_rejected_lines_than_allowed_is_refused_before_any_work(
    kvjobs: Kvjobs, database: Database, tmp_path: Path, allowed: str, is_taken: bool
) -> None:
    corpus = corpus_of(tmp_path / "c.jsonl", "One.", None, "Two.", None, "Three.")

    result = kvjobs("submit", corpus, "--max-rejected", allowed)

    assert kvjobs("ls", "-q").out == ("1\n" if is_taken else "")
    assert result.exit_code == (0 if is_taken else 2)
    if not is_taken:
        assert line_with(result.err, "2 of 5 ", f"--max-rejected allows {allowed};")
        assert "  line 2: " in result.err


@pytest.mark.parametrize("command", ["wait", "watch"])
def test_a_job_whose_rejected_lines_are_allowed_has_succeeded(kvjobs: Kvjobs, add_job: AddJob, command: str) -> None:
    rejected = Line(None, status=DocumentStatus.REJECTED, text=None)
    job = add_job(Line("a", "甲"), rejected)
    failed = add_job(Line("a", "甲"), rejected, Line("b", status=DocumentStatus.FAILED))

    assert [kvjobs(command, job, "--max-rejected", allowed).exit_code for allowed in ("0", "1", "49%", "50%")] == [
        *(3, 0, 3, 0)
    ]
    assert kvjobs(command, job).exit_code == 3
    assert kvjobs(command, job, "--max-rejected", "1", "--json").json["exit_code"] == 0
    assert kvjobs(command, failed, "--max-rejected", "9").exit_code == 3
    assert "such as 0.5%" in kvjobs(command, job, "--max-rejected", "few").err


def test_the_tolerance_of_a_submit_is_that_of_every_later_command(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    corpus = corpus_of(tmp_path / "c.jsonl", "One.", None, None)
    assert kvjobs("submit", corpus).exit_code == 0
    with database.writing() as connection:
        connection.execute(update(JobCounts).values(succeeded=1, shards_open=0))
        connection.execute(update(Job).values(state=JobState.DONE, finished_at=db_time()))

    def codes() -> list[int]:
        later = (("wait", 1), ("watch", 1), ("watch", 1, "--work"), ("submit", corpus, "--wait"))
        return [*(kvjobs(*one).exit_code for one in later), kvjobs("show", 1, "--json").json["exit_code"]]

    assert codes() == [3, 3, 3, 3, 3]
    assert kvjobs("submit", corpus, "--max-rejected", "1").exit_code == 2
    assert codes() == [3, 3, 3, 3, 3]
    assert kvjobs("submit", corpus, "--max-rejected", "100%").exit_code == 0
    assert codes() == [0, 0, 0, 0, 0]
    assert kvjobs("wait", 1, "--max-rejected", "1").exit_code == 3
    assert kvjobs("ls", "--json").json[0]["max_rejected"] == "100%"
    assert codes() == [0, 0, 0, 0, 0]
