"""The webhooks of a job on its page, and the button that sends one again."""

from pathlib import Path

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from jobs.choices import Role
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.action_list import list_actions
from jobs.store.schema.tables import Job
from jobs.store.tokens import add_token
from jobs.store.webhooks import Delivery, claim_due, list_deliveries, note_answer
from jobs.web.app import Options, create_app
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.small_chains import begin, finish_all
from tests.webhook_receiver import SECRET

URL = "https://a.example/<b>hook</b>?key=k3y"


@pytest.fixture
def job_id(database: Database, tmp_path: Path) -> int:
    """The number of a job whose webhook was given up."""
    (number,) = begin(database, tmp_path, notify=[URL])
    finish_all(database)
    delivery = claim_due(database)
    assert delivery is not None
    note_answer(database, delivery, 410, "it was answered with <i>HTTP 410</i>")
    return number


def delivery_of(database: Database, job_id: int) -> Delivery:
    with database.reading() as connection:
        (found,) = list_deliveries(connection, job_id)
    return found


def again(client: TestClient, database: Database, job_id: int) -> str:
    return f"/jobs/{job_id}/webhooks/{delivery_of(database, job_id).id}/again"


def own(client: TestClient) -> dict[str, str]:
    return {"form_token": client.app.state.form_token}  # type: ignore[attr-defined]


def test_the_page_lists_what_became_of_each_and_shows_no_key(client: TestClient, job_id: int) -> None:
    page, as_json = client.get(f"/jobs/{job_id}").text, client.get(f"/jobs/{job_id}.json").text

    assert "given up" in page
    assert "&lt;i&gt;HTTP 410&lt;/i&gt;" in page
    assert "<b>hook" not in page
    assert "k3y" not in page + as_json
    assert "given up" in as_json


def test_a_job_without_webhooks_has_no_such_part(client: TestClient, finished_job: int) -> None:
    assert 'id="webhooks"' not in client.get(f"/jobs/{finished_job}").text


def test_the_button_sends_it_again_and_is_logged(client: TestClient, database: Database, job_id: int) -> None:
    before = delivery_of(database, job_id)
    assert again(client, database, job_id) in client.get(f"/jobs/{job_id}").text

    answer = client.post(again(client, database, job_id), data=own(client), follow_redirects=False)

    assert answer.status_code == 303
    after = delivery_of(database, job_id)
    assert (after.state, after.attempts, after.message_id) == ("waits", 0, before.message_id)
    with database.reading() as connection:
        assert [entry.action for entry in list_actions(connection, job_id)] == ["notify"]


def test_another_site_and_another_job_cannot_send_it(client: TestClient, database: Database, job_id: int) -> None:
    address = again(client, database, job_id)

    assert client.post(address).status_code == 400
    assert client.post(address, data=own(client), headers={"sec-fetch-site": "cross-site"}).status_code == 403
    number = delivery_of(database, job_id).id
    assert client.post(f"/jobs/{job_id}/webhooks/{number + 1}/again", data=own(client)).status_code == 404
    assert client.post(f"/jobs/{job_id + 1}/webhooks/{number}/again", data=own(client)).status_code == 404
    assert delivery_of(database, job_id).state == "given up"


@pytest.mark.parametrize(("owner", "code"), [("ci", 303), ("ann@here", 403)])
def test_a_producer_sends_those_of_its_own_jobs(
    client: TestClient, database: Database, job_id: int, owner: str, code: int
) -> None:
    with database.writing() as connection:
        connection.execute(update(Job).values(owner=owner))
    header = {"authorization": f"Bearer {add_token(database, 'ci', Role.PRODUCER, 'ann@here')}"}
    address = again(client, database, job_id)

    assert (address in client.get(f"/jobs/{job_id}", headers=header).text) is (code == 303)
    assert client.post(address, data=own(client), headers=header, follow_redirects=False).status_code == code


def test_show_says_it_in_a_line(kvjobs: Kvjobs, job_id: int) -> None:
    shown = kvjobs("show", str(job_id))

    assert line_with(shown.out, "webhooks", "0 of 1 webhook", "410", "given up")
    assert "k3y" not in shown.out + kvjobs("show", str(job_id), "--json").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--notify", "https://a.example"), "KVJOBS_NOTIFY_SECRET"),
        (("--notify", "http://a.example"), "https://"),
        (("--notify", "nowhere"), "https://HOST"),
        (("--on-end", "true"), "--wait"),
    ],
)
def test_a_submit_that_could_not_tell_of_its_end_is_refused(
    kvjobs: Kvjobs, database: Database, arguments: tuple[str, ...], said: str
) -> None:
    Path("corpus.jsonl").write_text('{"id": 1, "text": "Snow will fall."}\n')

    refused = kvjobs("submit", "corpus.jsonl", *arguments)

    assert refused.exit_code == 2
    assert said in refused.err
    assert kvjobs("ls", "--json").json == []


def test_the_setting_is_for_every_job_and_the_secret_is_not_shown(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "whsec_" + "A" * 44
    monkeypatch.setenv("KVJOBS_NOTIFY_URL", "https://a.example/all")
    monkeypatch.setenv("KVJOBS_NOTIFY_SECRET", secret)
    Path("corpus.jsonl").write_text('{"id": 1, "text": "Snow will fall."}\n')

    assert kvjobs("submit", "corpus.jsonl", "--notify", "https://b.example/one").exit_code == 0
    assert kvjobs("query", "select notify from jobs", "--json").json == [
        {"notify": '["https://b.example/one", "https://a.example/all"]'}
    ]
    shown = kvjobs("config").out
    assert "notify_secret" in shown
    assert secret not in shown


@pytest.mark.parametrize(
    ("secret", "url", "code", "said"),
    [
        ("", "https://a.example/", 400, "secret"),
        (SECRET, "http://127.0.0.1:6379/", 400, "https"),
        (SECRET, "http://a.example/", 400, "https"),
        (SECRET, "https://a.example/", 201, ""),
    ],
)
def test_over_http_a_webhook_is_signed_and_goes_to_no_program_of_this_machine(
    database: Database, home: Path, secret: str, url: str, code: int, said: str
) -> None:
    """A visitor's own machine is another."""
    settings = Settings(home=home, models_dir=home / "models", notify_secret=secret)
    corpus = b'{"id": 1, "text": "Snow will fall."}\n'
    with TestClient(create_app(database, settings, Options(hosts=("testserver",)))) as client:
        answer = client.post("/api/jobs", params={"notify": url}, content=corpus)

    assert answer.status_code == code, answer.text
    assert said in answer.text
