"""Actions on a job: they ask first, need a form of ours, and are logged."""

import pytest
from starlette.testclient import TestClient

from jobs.control.actions import Action, perform
from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.action_list import list_actions
from jobs.store.report.job_summary import find_job
from jobs.store.schema.states import JobState
from tests.command_line import Kvjobs
from tests.rows import AddJob, AddWaitingJob, Line


def state_of(database: Database, job_id: int) -> str:
    with database.reading() as connection:
        return find_job(connection, str(job_id)).recorded_state


def form(client: TestClient, **values: object) -> dict[str, object]:
    return {"form_token": client.app.state.form_token, **values}  # type: ignore[attr-defined]


def test_a_link_asks_and_the_form_acts(client: TestClient, database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job()

    page = client.get(f"/jobs/{job}/actions/pause")
    assert "Workers finish" in page.text
    assert state_of(database, job) == "running", "a GET changes nothing"

    answer = client.post(f"/jobs/{job}/actions/pause", data=form(client, reason="<b>lunch</b>"), follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"/jobs/{job}?done=")
    assert state_of(database, job) == "paused"
    log = client.get(f"/jobs/{job}/actions").text
    assert "dashboard on this machine" in log or "dashboard, from testclient" in log
    assert "&lt;b&gt;lunch&lt;/b&gt;" in log


@pytest.mark.parametrize(
    ("values", "headers", "code"),
    [
        ({}, {}, 400),
        ({"form_token": "guessed"}, {}, 400),
        ({"form_token": "gu\u00e9ssed"}, {}, 400),
        ({"form_token": None}, {"sec-fetch-site": "cross-site"}, 403),
        ({"form_token": None}, {"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_form_of_another_site_changes_nothing(
    client: TestClient,
    database: Database,
    add_waiting_job: AddWaitingJob,
    values: dict[str, str | None],
    headers: dict[str, str],
    code: int,
) -> None:
    job = add_waiting_job()
    own = form(client)["form_token"]
    data = {name: own if value is None else value for name, value in values.items()}

    answer = client.post(f"/jobs/{job}/actions/cancel", data=data, headers=headers)

    assert answer.status_code == code
    assert state_of(database, job) == "running"
    with database.reading() as connection:
        assert list_actions(connection, job) == []


def test_what_the_state_of_a_job_forbids_is_not_offered_and_refused(
    client: TestClient, database: Database, add_job: AddJob
) -> None:
    job = add_job(Line("a", "甲"))

    assert client.get(f"/jobs/{job}/actions/pause").status_code == 400
    assert client.post(f"/jobs/{job}/actions/pause", data=form(client)).status_code == 400
    assert client.get(f"/jobs/{job}/actions/delete").status_code == 400
    assert state_of(database, job) == "done"


def test_the_priority_is_a_number_within_bounds(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job()

    for wrong in ("", "high", "1e9", "100000"):
        assert client.post(f"/jobs/{job}/actions/priority", data=form(client, priority=wrong)).status_code == 400
    assert client.post(f"/jobs/{job}/actions/priority", data=form(client, priority="7")).status_code == 200
    with database.reading() as connection:
        assert find_job(connection, str(job)).priority == 7


def test_a_refused_action_is_logged_with_its_error(database: Database, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲"))

    with pytest.raises(SpecError):
        perform(database, str(job), Action.PAUSE, "somebody@here")

    with database.reading() as connection:
        (logged,) = list_actions(connection, job)
    assert logged.action == "pause"
    assert logged.outcome is not None
    assert logged.outcome.startswith("refused: ")


def test_actions_on_the_command_line_are_logged_too(
    kvjobs: Kvjobs, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job()

    assert kvjobs("pause", str(job), "--reason", "maintenance").exit_code == 0
    assert kvjobs("priority", str(job), "-5").exit_code == 0
    assert kvjobs("cancel", str(job)).exit_code == 0

    with database.reading() as connection:
        logged = list_actions(connection, job)
    assert [(one.action, one.detail) for one in logged] == [
        ("cancel", None),
        ("priority", "-5"),
        ("pause", "maintenance"),
    ]
    assert all("@" in one.actor and one.outcome for one in logged)


def test_an_open_job_can_be_closed_and_a_job_of_a_corpus_cannot(
    client: TestClient, database: Database, add_job: AddJob, running_job: int
) -> None:
    job = add_job(Line("a", "eins"), state=JobState.RUNNING, is_open=True, finished_at=None)
    asked = client.get(f"/jobs/{job}/actions/close")
    page = client.get(f"/jobs/{job}").text

    assert asked.status_code == 200
    assert "open, waits for documents" in page
    assert f"/jobs/{job}/actions/close" in page
    assert "to go" not in page
    assert state_of(database, job) == "running", "a GET changes nothing"

    assert client.post(f"/jobs/{job}/actions/close", data=form(client), follow_redirects=False).status_code == 303
    assert state_of(database, job) == "done"
    assert "/actions/close" not in client.get(f"/jobs/{running_job}").text
    assert client.get(f"/jobs/{running_job}/actions/close").status_code == 400
