"""Webhooks over sockets: a receiver that fails in each way, and a sender that is killed."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from jobs.dispatch.webhooks import WebhookSender, deliver_next, send_due
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.webhook_table import WebhookDelivery
from jobs.store.webhooks import Delivery, list_deliveries
from tests.databases import ON_SQLITE
from tests.machine import until
from tests.places import TESTS
from tests.small_chains import begin, finish_all
from tests.webhook_receiver import CLOSE, DRIP, SECRET, STALL, receiving

pytestmark = ON_SQLITE


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home, models_dir=home / "models", notify_secret=SECRET)


def end_a_job(database: Database, folder: Path, *urls: str) -> int:
    (job_id,) = begin(database, folder, notify=list(urls), again=True)
    finish_all(database)
    return job_id


def deliveries(database: Database, job_id: int) -> list[Delivery]:
    with database.reading() as connection:
        return list_deliveries(connection, job_id)


def make_due(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(update(WebhookDelivery).values(next_try_at=db_time(-1)))


def test_a_receiver_verifies_what_came_with_the_library_of_the_rules(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    with receiving() as receiver:
        job_id = end_a_job(database, tmp_path, f"{receiver.url}?key=1")
        assert deliver_next(database, settings)
        assert not deliver_next(database, settings), "one delivery was due"

    message: Any = receiver.verified()
    assert (message["type"], message["data"]["job"]) == ("job.done", job_id)
    headers, _ = receiver.messages[0]
    assert headers["content-type"] == "application/json"
    (delivery,) = deliveries(database, job_id)
    assert (delivery.state, delivery.last_status, headers["webhook-id"]) == ("delivered", 204, delivery.message_id)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (500, 500, "500"),
        (302, 302, "redirect"),
        (307, 307, "redirect"),
        (STALL, None, "did not answer"),
        (DRIP, None, "did not answer"),
        (CLOSE, None, "cannot be asked"),
    ],
)
def test_a_receiver_that_fails_gets_it_again_with_the_same_id(
    database: Database, settings: Settings, tmp_path: Path, answer: int, status: int | None, said: str
) -> None:
    with receiving(answer) as receiver:
        job_id = end_a_job(database, tmp_path, receiver.url)
        began = time.monotonic()
        assert deliver_next(database, settings, most_s=1.0)
        assert time.monotonic() - began < 15, "an attempt ends, however slowly it is answered"
        (failed,) = deliveries(database, job_id)
        assert (failed.state, failed.last_status) == ("waits", status)
        assert said in (failed.last_error or "")
        make_due(database)
        assert deliver_next(database, settings)

        assert len(set(receiver.ids)) == 1
        assert len(receiver.ids) == 2, "a redirect is not followed"
        assert receiver.verified(1) == receiver.verified(0)
    assert [delivery.state for delivery in deliveries(database, job_id)] == ["delivered"]


def test_a_receiver_that_is_away_is_noted(database: Database, settings: Settings, tmp_path: Path) -> None:
    with receiving() as receiver:
        url = receiver.url
    job_id = end_a_job(database, tmp_path, url)
    assert deliver_next(database, settings)

    assert "refused" in (deliveries(database, job_id)[0].last_error or "")


def test_a_receiver_that_stalls_holds_up_no_other(database: Database, settings: Settings, tmp_path: Path) -> None:
    with receiving(*[STALL] * 3) as slow, receiving() as quick:
        for _ in range(3):
            end_a_job(database, tmp_path, slow.url)
        end_a_job(database, tmp_path, quick.url)
        began = time.monotonic()
        send_due(database, settings, at_most_s=1.0)

        assert time.monotonic() - began < 15
        until(lambda: quick.messages)


def test_without_a_secret_it_is_left_to_another(database: Database, settings: Settings, tmp_path: Path) -> None:
    with receiving() as receiver:
        job_id = end_a_job(database, tmp_path, receiver.url)
        send_due(database, Settings(home=settings.home, models_dir=settings.models_dir))
        assert (receiver.messages, deliveries(database, job_id)[0].attempts) == ([], 0)


KILLED = """
import sys
from pathlib import Path
from jobs.dispatch.webhooks import deliver_next
from jobs.settings import Settings
from jobs.store.database import Database
home = Path(sys.argv[1])
settings = Settings(home=home, models_dir=home, notify_secret=sys.argv[2])
deliver_next(Database.open(settings.database_url), settings)
"""


def test_a_sender_that_is_killed_before_it_noted_the_answer_sends_it_again(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    with receiving() as receiver:
        job_id = end_a_job(database, tmp_path, receiver.url)
        points = {"KVJOBS_FAILPOINTS": "after-webhook:kill", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "hits")}
        command = [sys.executable, "-c", KILLED, str(settings.home), SECRET]
        killed = subprocess.run(command, env=os.environ | points, timeout=60, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert (len(receiver.ids), deliveries(database, job_id)[0].state) == (1, "waits")

        make_due(database)  # the time of the claim has passed
        assert deliver_next(database, settings)

    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    assert deliveries(database, job_id)[0].state == "delivered"


def test_a_process_sends_by_itself_what_becomes_due(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.dispatch.webhooks.LOOK_EVERY_S", 0.05)
    stop = threading.Event()
    with receiving() as receiver:
        WebhookSender(database, settings).start(stop)
        end_a_job(database, tmp_path, receiver.url)
        until(lambda: receiver.messages)
        until(lambda: deliveries(database, 1)[0].state == "delivered")
        stop.set()


def this_machine(_host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
    """The answer of a name server that leads every name here."""
    return [(0, 0, 0, "", ("127.0.0.1", port))]


def test_over_tls_the_receiver_has_to_have_the_name_that_was_asked(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = TESTS / "self_signed.pem"  # of 127.0.0.1
    private = dataclasses.replace(settings, notify_private=True)
    with receiving(certificate=certificate) as receiver:
        job_id = end_a_job(database, tmp_path, receiver.url)

        def attempt(with_settings: Settings, **how: Any) -> str:
            make_due(database)
            assert deliver_next(database, with_settings, **how)
            return deliveries(database, job_id)[0].last_error or ""

        assert "private network" in attempt(settings)
        assert "certificate" in attempt(private)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        elsewhere = receiver.url.replace("127.0.0.1", "a.example")
        with database.writing() as connection:
            connection.execute(update(WebhookDelivery).values(url=elsewhere))
        assert "certificate" in attempt(private, resolve=this_machine)
        assert receiver.messages == []
        with database.writing() as connection:
            connection.execute(update(WebhookDelivery).values(url=receiver.url))
        assert attempt(private) == ""
        assert len(receiver.messages) == 1


def test_a_worker_that_ends_with_its_work_has_sent_its_webhooks(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    with receiving() as receiver:
        end_a_job(database, tmp_path, receiver.url)
        WebhookSender(database, settings).finish()

        assert len(receiver.messages) == 1
