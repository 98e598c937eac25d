"""The events of jobs: written with the end of the job, claimed by one, tried again, given up."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from jobs.errors import CorpusError, NotFoundError
from jobs.store.database import Database
from jobs.store.ingest.lifecycle import abandon
from jobs.store.jobs import cancel, retry
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Job
from jobs.store.schema.webhook_table import WebhookDelivery
from jobs.store.webhooks import (
    PAUSES_S,
    Delivery,
    claim_due,
    has_due,
    list_deliveries,
    note_answer,
    send_again,
)
from jobs.submission.open_job import corpus_of_documents, open_job
from tests.small_chains import KEPT, SCORED, begin, finish_all
from tests.store.submission.corpora import SPEC

URL = "https://a.example/hook"


def deliveries(database: Database, job_id: int) -> list[Delivery]:
    with database.reading() as connection:
        return list_deliveries(connection, job_id)


def make_due(database: Database) -> None:
    with database.writing() as connection:
        due = WebhookDelivery.next_try_at.is_not(None)
        connection.execute(update(WebhookDelivery).where(due).values(next_try_at=db_time(-1)))


@pytest.fixture
def ended(database: Database, tmp_path: Path) -> int:
    """The number of a job that is done, whose event waits."""
    (job_id,) = begin(database, tmp_path, notify=[URL], owner="ci", name="nightly")
    finish_all(database)
    return job_id


def test_a_job_that_ends_leaves_an_event_with_counts_and_without_a_text(database: Database, ended: int) -> None:
    (delivery,) = deliveries(database, ended)

    assert (delivery.event, delivery.url, delivery.attempts, delivery.state) == ("job.done", URL, 0, "waits")
    sent = json.loads(delivery.payload)
    assert sent["type"] == "job.done"
    data = sent["data"]
    assert (data["job"], data["name"], data["owner"], data["state"]) == (ended, "nightly", "ci", "done")
    assert (data["counts"]["documents"], data["counts"]["succeeded"]) == (6, 6)
    assert data["finished_at"] == sent["timestamp"] is not None
    assert "text" not in delivery.payload
    assert has_due(database)


def test_without_an_address_there_is_no_event(database: Database, tmp_path: Path) -> None:
    (job_id,) = begin(database, tmp_path)
    finish_all(database)

    assert deliveries(database, job_id) == []
    assert not has_due(database)


def test_the_event_is_written_with_the_end_or_not_at_all(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = begin(database, tmp_path, notify=[URL])

    def die(*_: object) -> None:
        raise RuntimeError("the process dies in the transaction")

    with monkeypatch.context() as patched:
        patched.setattr("jobs.store.queue.completion.announce_end", die)
        with pytest.raises(RuntimeError):
            finish_all(database)
    with database.reading() as connection:
        assert connection.scalar(select(Job.state).where(Job.id == job_id)) == "running"
    assert deliveries(database, job_id) == []


def test_a_chain_has_one_event_when_its_last_stage_ends(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT, notify=[URL, "https://b.example/"])
    assert deliveries(database, chain[0]) == []
    finish_all(database)

    found = deliveries(database, chain[0])
    assert sorted(delivery.url for delivery in found) == [URL, "https://b.example/"]
    assert len({delivery.message_id for delivery in found}) == 2
    stages = json.loads(found[0].payload)["data"]["stages"]
    assert [stage["job"] for stage in stages] == chain
    assert {stage["state"] for stage in stages} == {"done"}
    assert all(deliveries(database, job_id) == [] for job_id in chain[1:])


@pytest.mark.parametrize("stages", [(), (SCORED, KEPT)])
def test_a_cancelled_job_has_an_event_and_another_once_it_was_retried(
    database: Database, tmp_path: Path, stages: tuple[object, ...]
) -> None:
    first = begin(database, tmp_path, *stages, notify=[URL])[0]  # type: ignore[arg-type]
    cancel(database, first)
    retry(database, first)
    finish_all(database)

    assert [delivery.event for delivery in deliveries(database, first)] == ["job.done", "job.cancelled"]


def test_a_corpus_that_is_given_up_is_an_event_too(database: Database, tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise CorpusError("the disk is gone")

    with pytest.raises(CorpusError):
        begin(database, tmp_path, notify=[URL], on_progress=fail)
    with database.reading() as connection:
        job_id = connection.scalar(select(Job.id))
    abandon(database, job_id, "the disk is gone")

    assert [delivery.event for delivery in deliveries(database, job_id)] == ["job.failed"]
    assert json.loads(deliveries(database, job_id)[0].payload)["data"]["reason"] == "the disk is gone"


def test_who_submits_a_job_that_runs_is_told_as_well(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, notify=[URL])
    for url in (URL, "https://b.example/"):
        assert begin(database, tmp_path, SCORED, notify=[url]) == chain
    finish_all(database)

    assert len(deliveries(database, chain[0])) == 2


def test_an_open_job_has_its_event_when_it_is_closed_and_done(database: Database) -> None:
    from jobs.store.jobs import close

    job, _ = open_job(database, corpus_of_documents(SPEC), SPEC, notify=[URL])
    assert deliveries(database, job.job_id) == []
    close(database, job.job_id)

    assert [delivery.event for delivery in deliveries(database, job.job_id)] == ["job.done"]


def test_of_many_senders_one_has_a_delivery(database: Database, ended: int) -> None:
    with ThreadPoolExecutor(8) as threads:
        claimed = [found for found in threads.map(lambda _: claim_due(database), range(16)) if found is not None]

    assert [delivery.attempts for delivery in claimed] == [1]
    assert not has_due(database)


def test_what_a_dead_sender_had_claimed_is_due_again_with_the_same_id(database: Database, ended: int) -> None:
    first = claim_due(database)
    make_due(database)  # the time of the claim has passed
    second = claim_due(database)

    assert first is not None
    assert second is not None
    assert (second.message_id, second.attempts) == (first.message_id, 2)


@pytest.mark.parametrize("status", [500, 404, 302, None])
def test_a_failure_is_tried_again_after_longer_and_longer_and_then_given_up(
    database: Database, ended: int, status: int | None
) -> None:
    pauses = []
    while (delivery := claim_due(database)) is not None:
        note_answer(database, delivery, status, "it failed")
        (after,) = deliveries(database, ended)
        with database.reading() as connection:
            now = connection.scalar(select(db_time()))
        if after.next_try_at is not None:
            pauses.append(after.next_try_at - now)
        make_due(database)

    assert len(pauses) == len(PAUSES_S) == 9
    for pause, seconds in zip(pauses, PAUSES_S, strict=True):
        assert timedelta(seconds=seconds - 5) < pause <= timedelta(seconds=seconds)
    assert (after.state, after.attempts, after.last_error) == ("given up", 10, "it failed")


@pytest.mark.parametrize(
    ("status", "state"), [(200, "delivered"), (204, "delivered"), (299, "delivered"), (410, "given up")]
)
def test_an_answer_ends_a_delivery(database: Database, ended: int, status: int, state: str) -> None:
    delivery = claim_due(database)
    assert delivery is not None
    note_answer(database, delivery, status, None if status < 300 else "it was answered with HTTP 410")

    (after,) = deliveries(database, ended)
    assert (after.state, after.last_status, after.next_try_at) == (state, status, None)


def test_a_late_failure_does_not_undo_what_another_has_delivered(database: Database, ended: int) -> None:
    slow = claim_due(database)
    make_due(database)
    quick = claim_due(database)
    assert slow is not None
    assert quick is not None
    note_answer(database, quick, 204, None)
    note_answer(database, slow, None, "it did not answer")

    assert [delivery.state for delivery in deliveries(database, ended)] == ["delivered"]


def test_a_delivery_is_sent_again_with_the_same_id(database: Database, ended: int) -> None:
    delivery = claim_due(database)
    assert delivery is not None
    note_answer(database, delivery, 204, None)

    send_again(database, ended, delivery.id)

    again = claim_due(database)
    assert again is not None
    assert (again.message_id, again.attempts) == (delivery.message_id, 1)
    with pytest.raises(NotFoundError):
        send_again(database, ended + 1, delivery.id)
