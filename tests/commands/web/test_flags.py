"""How many results have which flag: the same numbers on every face, each with the way to these documents."""

import re
import shlex

import pytest
from starlette.testclient import TestClient

from jobs.cli.render.job_end import end_message
from jobs.outcome import Score
from jobs.store.database import Database
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import find_job
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.rows import AddJob, Line


@pytest.fixture
def flagged_job(add_job: AddJob) -> int:
    lines = [Line(f"n{number}", "x", flags="number-changed") for number in range(11)]
    return add_job(*lines, Line("b", "x", flags="number-changed placeholder-lost"), Line("c", "x"), Line("d"))


@ON_BOTH
def test_commands_count_flags_and_name_the_export_of_the_first(kvjobs: Kvjobs, flagged_job: int) -> None:
    counted = {"placeholder-lost": 1, "number-changed": 12}

    shown = kvjobs("show", flagged_job).out
    assert "1 placeholder-lost, 12 number-changed" in shown
    command = next(line for line in shown.splitlines() if "flags has" in line).partition("kvjobs ")[2]
    assert kvjobs(*shlex.split(command)).out.count("\n") == 1
    assert list(kvjobs("show", flagged_job, "--json").json["flags"].items()) == list(counted.items())
    assert kvjobs("ls", "--json").json[0]["flags"] == counted
    found = kvjobs("query", "--saved", "flags", "-p", "job", flagged_job, "--json").json
    assert [(row["flag"], row["documents"]) for row in found] == [("number-changed", 12), ("placeholder-lost", 1)]
    assert kvjobs("db", "check", flagged_job).exit_code == 0


def test_a_job_that_ends_says_its_flags_but_not_that_of_its_model(
    database: Database, add_job: AddJob, flagged_job: int
) -> None:
    score = Score(2.0, 2, 1, 5, flags=("unscored-first",))  # type: ignore[arg-type]  # as text
    scored = add_job(Line("a", result=score), task=Task.SCORE, options=ScoreOptions())

    def said(job_id: int) -> list[str]:
        with database.reading() as connection:
            job = find_job(connection, str(job_id))
            message = end_message(job, None, None, None, providers_of(connection, job))
        return [line for line in message.splitlines() if "lags" in line]

    first, second = said(flagged_job)
    assert "12 number-changed" in first
    assert second.endswith(f"kvjobs export {flagged_job} --where \"flags has 'placeholder-lost'\"")
    assert said(scored) == []


def test_two_jobs_are_compared_by_their_flags(kvjobs: Kvjobs, add_job: AddJob, flagged_job: int) -> None:
    other = add_job(*(Line(f"n{number}", "x", flags="truncated") for number in range(3)))

    lines = [line.split() for line in kvjobs("compare", flagged_job, other).out.splitlines()]

    assert ["number-changed", "12", "0"] in lines
    assert ["truncated", "0", "3"] in lines


@ON_BOTH
def test_pages_and_metrics_count_flags_and_lead_to_the_documents(client: TestClient, flagged_job: int) -> None:
    page = client.get(f"/jobs/{flagged_job}").text
    ways = dict(re.findall(r'<a class="flag" href="([^"]+)">([^<]+)</a>', page))

    assert {client.get(way).text.count('class="main-link"') for way in ways} == {1, 12}
    assert set(ways.values()) == {"placeholder-lost", "number-changed"}
    listed = client.get(f"/jobs/{flagged_job}/documents").text
    assert set(re.findall(r'href="([^"]+)">(?:placeholder-lost|number-changed)</a>', listed)) == set(ways)
    assert ">number-changed (12)</option>" in listed
    assert 'href="/jobs/1/documents?flag=placeholder-lost"' in client.get("/jobs/1/documents/b").text
    assert f'kvjobs_job_flagged_documents{{job_id="{flagged_job}",flag="number-changed"}} 12' in (
        client.get("/metrics").text
    )
    assert client.get(f"/api/jobs/{flagged_job}").json()["flags"] == {"placeholder-lost": 1, "number-changed": 12}
