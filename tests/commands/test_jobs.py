"""Commands about jobs: ls, show, steps, wait, watch, pause, resume, close, cancel and retry."""

import csv
import io
import json
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from jobs.corpus.corpus import Corpus
from jobs.errors import TransientError
from jobs.operations import follow_job, stalled_job
from jobs.outcome import Ranking, StepTiming
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus, JobState
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.rows import AddJob, Line, add_timings

NAMES = ("nightly-opensubtitles-2024-en-zh-part-0017", "汉语新闻语料库第三部分", "job", "-")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call with a number of columns: standard output is then a terminal of that width."""

    def of_width(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return of_width


@pytest.mark.parametrize("columns", [80, 100, 40])
def test_the_list_of_jobs_never_cuts_numbers_and_names(
    terminal: Any, kvjobs: Kvjobs, add_job: AddJob, columns: int
) -> None:
    for name in NAMES[:2]:
        add_job(Line("a", "甲"), name=name, model="opus-mt-tc-big-en-zh-int8")
    terminal(columns)

    result = kvjobs("ls")

    assert all(name in result.out for name in NAMES[:2])
    assert "…" not in result.out
    assert "opus-mt-tc-big-en-zh-int8" in result.out or "MODEL" in result.err


@pytest.fixture
def timed_job(database: Database, finished_job: int) -> int:
    """A finished job with step timings: two lanes, a prefill and two decode steps each."""
    calls = (("encode", 0, 30, 0.4), ("prefill", 0, 3, 0.1), ("decode", 1, 3, 0.02), ("decode", 2, 3, 0.03))
    timings = [StepTiming(phase, step, 3, tokens, 0, seconds) for phase, step, tokens, seconds in calls]
    for lane in (0, 1):
        add_timings(database, finished_job, timings, lane)
    return finished_job


# ls -----------------------------------------------------------------------------------------------------------------


def test_ls_without_jobs_suggests_what_to_do(kvjobs: Kvjobs) -> None:
    assert kvjobs("ls").out == ""
    assert "kvjobs submit" in kvjobs("ls").err
    assert kvjobs("ls", "--json").out == "[]\n"
    assert kvjobs("ls", "-q").out == ""
    assert kvjobs("ls", "--csv").out.startswith("job_id,name,")


def test_ls_and_show_say_the_same_number_of_tokens_of_a_reranking(
    kvjobs: Kvjobs, database: Database, add_job: AddJob
) -> None:
    job = add_job(Line("q", result=Ranking((), 20_340, 75_718, 0)), task=Task.RERANK, options=RerankOptions())
    with database.writing() as connection:
        connection.execute(update(tables.JobCounts).values(source_tokens=75_718, target_tokens=20_340))

    assert "75,718" in kvjobs("ls").out
    assert "75,718 through the model" in kvjobs("show", job).out


def test_ls_has_every_output_form(kvjobs: Kvjobs, finished_job: int, running_job: int) -> None:
    assert kvjobs("ls", "-q").out == f"{running_job}\n{finished_job}\n"
    assert [job["shown_state"] for job in kvjobs("ls", "--json").json] == ["waiting", "done"]
    assert [row["name"] for row in csv.DictReader(io.StringIO(kvjobs("ls", "--csv").out))] == ["running", "nightly"]
    head, *rows = kvjobs("ls").out.splitlines()
    assert head.split()[:3] == ["JOB", "NAME", "STATE"]
    assert rows[1].split()[:4] == [str(finished_job), "nightly", "done", "100.0"]


def test_ls_reports_that_there_are_more_jobs(kvjobs: Kvjobs, add_job: AddJob) -> None:
    for _ in range(3):
        add_job(Line("a", "甲"))

    assert kvjobs("ls", "-q", "--limit", 2).out == "3\n2\n"
    assert "--all" in kvjobs("ls", "--limit", 2).err
    assert kvjobs("ls", "--all", "--limit", 2, "-q").out == "3\n2\n1\n"
    assert kvjobs("ls", "--limit", 3).err == ""


def test_output_forms_exclude_each_other(kvjobs: Kvjobs) -> None:
    assert kvjobs("ls", "--json", "-q").exit_code == 2


def test_a_hostile_name_does_not_reach_the_terminal(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(
        Line("\x1b[2J", status=DocumentStatus.FAILED, error=("\x1bcode", "\x1b]0;title\x07\u202e")), name="\x1b[31m[b]"
    )

    for command in (("ls",), ("show", job), ("watch", job), ("wait", job), ("retry", job), ("ls", "--json")):
        result = kvjobs(*command)
        assert not set("\x1b\x07\u202e") & set(result.out + result.err)
    assert r"\x1b[31m[b]" in kvjobs("ls").out


# show ---------------------------------------------------------------------------------------------------------------


def test_show_describes_a_job_on_one_page(kvjobs: Kvjobs, timed_job: int) -> None:
    out = kvjobs("show", "nightly").out

    assert out.startswith(f"Job {timed_job} (nightly): done\n")
    assert line_with(out, "documents ", "3 of 3 ", "ok")
    assert "beam" not in out  # an option left to the model is not shown
    assert "batch_size" not in out
    assert "encode" in out
    assert f"kvjobs export {timed_job} -o job-{timed_job}.jsonl\n" in out


def test_show_groups_failures_by_reason(kvjobs: Kvjobs, mixed_job: int) -> None:
    out = kvjobs("show", mixed_job).out

    assert line_with(out, "1 document", "failed", "engine-error\n    line 2 ")
    assert line_with(out, "line 2 ", "id bad", "it broke")
    assert line_with(out, "1 document", "rejected", "bad-json\n    line 3: ")
    assert f"kvjobs retry {mixed_job}" in out
    bad = kvjobs("show", mixed_job, "--json").json["failures"]
    assert {failure["code"] for failure in bad} == {"engine-error", "bad-json", "killed"}


@pytest.mark.parametrize(
    ("columns", "following"),
    [
        ({"state": JobState.INGESTING}, "kvjobs submit corpus.jsonl --task translate --model opus-mt-en-zh --again"),
        ({}, "kvjobs worker"),
        ({"paused": True, "reason": "lunch"}, "kvjobs resume 1"),
        ({"state": JobState.FAILED}, "kvjobs submit corpus.jsonl --task translate --model opus-mt-en-zh --again"),
    ],
)
def test_show_suggests_the_next_command(
    kvjobs: Kvjobs, add_job: AddJob, columns: dict[str, object], following: str
) -> None:
    job = add_job(Line("w"), **columns)

    assert f"Next: {following}" in kvjobs("show", job).out
    assert kvjobs("show", job, "--json").json["next"] == following


def test_the_next_commands_work_as_they_are_written(
    kvjobs: Kvjobs, add_job: AddJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = (("too-long", "failed"), ("engine-error", "failed"), ("killed", "quarantined"), ("bad-json", "rejected"))
    bad = [Line(code, status=DocumentStatus(status), error=(code, "it broke")) for code, status in codes]
    job = add_job(Line("a", "甲"), *bad, reading=Corpus(path="c.jsonl").reading)

    steps = kvjobs("show", job, "--json").json["next_steps"]
    ended = {step["command"]: kvjobs(*shlex.split(step["command"])[1:]).exit_code for step in steps}

    assert len(ended) == 5
    assert set(ended.values()) == {0}
    files = tmp_path.glob(f"job-{job}-*")
    taken = {path.name: [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()] for path in files}
    assert taken == {f"job-{job}-too-long.jsonl": ["too-long"], f"job-{job}-killed.jsonl": ["killed"]}


def test_an_unknown_job_exits_with_5(kvjobs: Kvjobs, database: Database) -> None:
    for command in ("show", "watch", "wait", "pause", "resume", "cancel", "retry", "export", "steps"):
        result = kvjobs(command, "nobody")
        assert result.exit_code == 5
        assert result.err == "Error: there is no job 'nobody'; to list all jobs: kvjobs ls --all\n"


# steps --------------------------------------------------------------------------------------------------------------


def test_steps_show_the_time_of_each_phase(kvjobs: Kvjobs, timed_job: int) -> None:
    phases = {row["group"]: row for row in kvjobs("steps", timed_job, "--json").json}
    by_step = kvjobs("steps", timed_job, "--by", "step", "--json").json
    lanes = kvjobs("steps", timed_job, "--by", "lane", "--json").json

    assert list(phases) == ["encode", "prefill", "decode"]
    assert phases["encode"]["seconds"] == pytest.approx(0.8)
    assert phases["decode"]["share"] == pytest.approx(0.1 / 1.1)
    assert phases["decode"]["mean_ms"] == pytest.approx(25)
    assert [(row["group"], round(row["mean_ms"])) for row in by_step] == [("0", 100), ("1", 20), ("2", 30)]
    assert [(row["group"], row["calls"]) for row in lanes] == [("1/0", 4), ("1/1", 4)]
    assert kvjobs("steps", timed_job).out.splitlines()[1].split()[:3] == ["encode", "0.800", "72.7"]


def test_steps_of_a_job_without_timings_say_so(kvjobs: Kvjobs, finished_job: int) -> None:
    assert "no step times" in kvjobs("steps", finished_job).err
    assert kvjobs("steps", finished_job, "--json").json == []


# wait and watch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "state", "exit_code"),
    [
        ([Line("a", "甲")], JobState.DONE, 0),
        ([Line("a", "甲"), Line("b", status=DocumentStatus.FAILED)], JobState.DONE, 3),
        ([Line("a", status=DocumentStatus.CANCELLED)], JobState.CANCELLED, 3),
        ([], JobState.FAILED, 1),
    ],
)
@pytest.mark.parametrize("command", ["wait", "watch"])
def test_the_outcome_of_a_job_is_the_exit_code(
    kvjobs: Kvjobs, add_job: AddJob, command: str, lines: list[Line], state: JobState, exit_code: int
) -> None:
    result = kvjobs(command, add_job(*lines, state=state))

    assert result.exit_code == exit_code
    assert result.out == ""


def test_a_wait_that_times_out_exits_with_4(kvjobs: Kvjobs, running_job: int) -> None:
    result = kvjobs("wait", running_job, "--timeout", "0.1")

    assert result.exit_code == 4
    assert result.err == "Job 1 (running) has not ended after 0.1 s: 2 of 4 documents ok, 1 failed, 1 waiting.\n"


def test_wait_continues_after_a_short_database_outage(
    kvjobs: Kvjobs, finished_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([TransientError("locked"), TransientError("locked"), None])
    find = follow_job.find_job

    def sometimes(*arguments: Any) -> Any:
        if error := next(answers):
            raise error
        return find(*arguments)

    monkeypatch.setattr(follow_job, "POLL_S", 0.01)
    monkeypatch.setattr(follow_job, "find_job", sometimes)
    assert kvjobs("wait", finished_job).exit_code == 0

    answers = iter([TransientError("locked")] * 1000)
    monkeypatch.setattr(follow_job, "PATIENCE_S", 0.05)
    assert kvjobs("wait", finished_job).exit_code == 1


@pytest.mark.parametrize("command", ["watch", "wait"])
def test_an_interrupted_watch_exits_with_130_and_says_that_the_job_continues(
    kvjobs: Kvjobs, running_job: int, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow_job.time, "sleep", interrupt)

    result = kvjobs(command, running_job)

    assert result.exit_code == 130
    assert line_with(result.err, "continues", "kvjobs ")
    assert result.err.rstrip().endswith(f"watch {running_job}")


def test_watch_without_a_terminal_prints_lines(
    kvjobs: Kvjobs, database: Database, running_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_job, "POLL_S", 0.01)

    with after(0.3, lambda: finish(database, running_job)):
        result = kvjobs("watch", running_job)

    assert result.exit_code == 3
    first, *_, last, following, _why, _results = result.err.splitlines()
    assert first.startswith("job 1 (running): 3/4 documents (75.0 %), 20 tokens")
    assert line_with(last, "4/4 ", "100.0 %")
    assert last.endswith("1 failed, done")
    assert "\x1b" not in result.err
    assert following == f"Next: kvjobs retry {running_job}"


def test_a_wait_for_a_job_that_no_worker_processes_says_why(
    kvjobs: Kvjobs, add_job: AddJob, running_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled_job, "HINT_AFTER_S", 0.0)
    paused = add_job(Line("w"), paused=True, reason="eight workers died")

    assert kvjobs("wait", running_job, "--timeout", "0.1").err.count("No worker is running") == 1
    assert line_with(kvjobs("wait", paused, "--timeout", "0.1").err, "paused (eight workers", "kvjobs resume")


def finish(database: Database, job_id: int) -> None:
    """End the job, as its worker would."""
    with database.writing() as connection:
        counts = {"succeeded": 3, "estimated_done": 40, "target_tokens": 30, "shards_open": 0}
        connection.execute(update(tables.JobCounts).where(tables.JobCounts.job_id == job_id).values(counts))
        ended = {"state": JobState.DONE, "finished_at": db_time()}
        connection.execute(update(tables.Job).where(tables.Job.id == job_id).values(ended))


class after:
    """Context manager that calls the action after some seconds, in a thread."""

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=lambda: (time.sleep(seconds), action()))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._thread.join()
