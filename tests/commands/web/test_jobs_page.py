"""/jobs: a chain is one line, jobs are ticked for an action or a comparison, and a banner says that work waits."""

from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.worker_registry import register
from jobs.web.app import Options, create_app
from tests.messages import line_with
from tests.rows import AddJob, AddWaitingJob, Line
from tests.small_chains import KEPT, SCORED, begin

HOSTILE = "<script>alert(1)</script>"


def states(client: TestClient) -> dict[int, str]:
    return {row["job_id"]: row["shown_state"] for row in client.get("/jobs.json").json()["jobs"]}


def token_of(page: str) -> str:
    return page.split('name="form_token" value="')[1].split('"')[0]


def test_a_chain_is_one_line_that_holds_its_stages(client: TestClient, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT)

    page, found = client.get("/jobs").text, client.get("/jobs.json").json()["jobs"]

    assert page.count('<tr id="job-') == 1
    assert line_with(page, "<summary>", "3 stages", "</summary>")
    for number in (1, 2, 3):
        assert f'href="/jobs/{number}"' in page
    assert [[stage["job_id"] for stage in line["stages"]] for line in found] == [[1, 2, 3]]


def test_the_ticked_jobs_are_paused_after_a_question(
    client: TestClient, add_waiting_job: AddWaitingJob, add_job: AddJob
) -> None:
    first, second, done = add_waiting_job(), add_waiting_job(), add_job(Line("a", "甲"), source=HOSTILE)

    asked = client.get(f"/jobs/actions?action=pause&job={first}&job={second}&job={done}").text
    assert HOSTILE not in asked
    assert f'name="job" value="{done}"' not in asked  # it has ended
    assert set(states(client).values()) == {"waiting", "done"}

    form = {"action": "pause", "job": [first, second], "reason": HOSTILE, "form_token": token_of(asked)}
    after = client.post("/jobs/actions", data=form)

    assert after.status_code == 200
    assert states(client) == {first: "paused", second: "paused", done: "done"}
    assert after.text.count(": done</li>") == 2
    assert HOSTILE not in after.text


def test_an_action_on_a_stage_is_for_its_chain_and_named_once(
    client: TestClient, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED, KEPT)
    asked = client.get("/jobs/actions?action=priority&job=1&job=2").text

    client.post("/jobs/actions", data={"action": "priority", "job": 1, "priority": 7, "form_token": token_of(asked)})

    assert asked.count('name="job"') == 1
    assert [client.get(f"/jobs/{number}.json").json()["job"]["priority"] for number in (1, 2, 3)] == [7, 7, 7]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_form_of_another_page_changes_nothing(client: TestClient, running_job: int, token: str) -> None:
    before = states(client)

    answer = client.post("/jobs/actions", data={"action": "cancel", "job": running_job, "form_token": token})

    assert (answer.status_code, states(client)) == (400, before)


def test_without_a_ticked_job_the_page_says_what_to_do(client: TestClient, running_job: int) -> None:
    assert client.get("/jobs/actions?action=cancel").status_code == 400
    assert client.get(f"/jobs/actions?action=cancel&job={running_job}99").status_code == 404
    assert client.get("/jobs/actions?action=explode&job=1").status_code == 400


def test_a_read_only_dashboard_offers_no_action(database: Database, home: Path, running_job: int) -> None:
    options = Options(hosts=("testserver",), read_only=True)
    client = TestClient(create_app(database, Settings(home=home, models_dir=home / "models"), options))

    assert 'name="action"' not in client.get("/jobs").text
    assert client.get(f"/jobs/actions?action=pause&job={running_job}").status_code == 403


def test_two_ticked_jobs_are_compared_the_older_first(client: TestClient, add_job: AddJob) -> None:
    jobs = [add_job(Line("a", "甲")) for _ in range(10)]

    chosen = client.get(f"/compare?job={jobs[9]}&job={jobs[1]}", follow_redirects=False)
    assert chosen.headers["location"] == f"/compare?a={jobs[1]}&b={jobs[9]}"
    assert client.get(f"/compare?job={jobs[0]}").status_code == 400
    assert client.get("/compare?job=1&job=2&job=3").status_code == 400


def test_a_banner_says_that_work_waits_until_a_worker_lives(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job()
    pages = ("/", "/jobs", f"/jobs/{job_id}", "/workers")

    for path in pages:
        assert 'class="banner"' in client.get(path).text, path
    assert "kvjobs worker" in unescape(client.get("/").text.split('class="banner"')[1].split("</section>")[0])
    register(database, device="cpu", provider="test", lanes=1)
    for path in pages:
        assert 'class="banner"' not in client.get(path).text, path
