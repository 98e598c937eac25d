<<<<<<< HEAD
"""A job that stays open, with a worker in processes of its own: how soon results come, and how it ends."""

import json
import time
from pathlib import Path

from jobs.export.running_results import new_results, results_of_ids
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.submission.open_job import OpenJob, append, corpus_of_documents, open_job
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.worker_port import worker_port
from tests.command_line import Kvjobs
from tests.machine import PATIENCE_S, Machine, until

BULLETIN = "Snow will fall on Monday."
NUMBER = 5  # documents, one after the other


def opened(database: Database) -> OpenJob:
    settings, _ = read_settings({})
    spec = worker_port().admit(Task.TRANSLATE, None, TranslateOptions(), settings)
    return open_job(database, corpus_of_documents(spec), spec)[0]


def summary(database: Database, job: OpenJob) -> JobSummary:
    with database.reading() as connection:
        return find_job(connection, str(job.job_id))


def has_result(database: Database, job: OpenJob, external_id: str) -> bool:
    line = results_of_ids(database, summary(database, job), [external_id])[external_id]
    return bool(json.loads(line)["status"] == "ok")


def test_documents_are_translated_soon_after_they_are_appended_until_the_job_is_closed(
    machine: Machine, kvjobs: Kvjobs
) -> None:
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    job = opened(database)
    worker = machine.worker()
    took = []
    for number in range(NUMBER):
        append(database, job, [{"id": str(number), "text": f"{BULLETIN} {number}"}])
        started = time.monotonic()
        until(lambda number=number: has_result(database, job, str(number)))
        took.append(time.monotonic() - started)
        time.sleep(0.3)  # until the lane has looked, and found nothing
    print("seconds from append to result:", *(f"{seconds:.2f}" for seconds in took))
    assert (summary(database, job).state, worker.poll()) == ("running", None)
    assert max(took[1:]) < PATIENCE_S / 10  # the first also loads the model

    waiting = machine.start("wait", str(job.job_id))
    closed = kvjobs("close", str(job.job_id))
    _, said = waiting.communicate(timeout=PATIENCE_S)

    assert (closed.exit_code, waiting.returncode) == (0, 0), said
    assert summary(database, job).state == "done"
    found = new_results(database, summary(database, job))
    assert [json.loads(line)["id"] for line in found.lines] == [str(number) for number in range(NUMBER)]
    assert found.is_last
    database.close()


def test_the_worker_of_a_watched_job_works_until_the_job_is_closed(machine: Machine, kvjobs: Kvjobs) -> None:
    database = Database.connect(f"sqlite:///{machine.home / 'kvjobs.db'}")
    job = opened(database)
    watch = machine.start("watch", str(job.job_id), "--work", "-o", "out.jsonl")
    for external_id in ("a", "b"):
        append(database, job, [{"id": external_id, "text": BULLETIN}])
        until(lambda external_id=external_id: has_result(database, job, external_id))
    assert watch.poll() is None
    kvjobs("close", str(job.job_id))
    _, said = watch.communicate(timeout=PATIENCE_S)

    assert watch.returncode == 0, said
    lines = Path(machine.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "b"]
    database.close()
=======
"""`kv.open`: documents come one by one, from many threads, and each result as soon as it is there."""

import threading
import time
from collections.abc import Iterator

import pytest

from kvjobs import Client, OpenJob, SpecError, connect
from tests.end_to_end.test_python import TEXTS


@pytest.fixture
def kv(worker: None) -> Iterator[Client]:
    with connect() as client:
        yield client


def test_many_threads_add_documents_and_each_gets_its_own_result(kv: Client) -> None:
    expected = dict(zip(TEXTS, kv.translate(TEXTS), strict=True))
    found: dict[str, tuple[str, str]] = {}

    def ask(job: OpenJob, number: int) -> None:
        for text in TEXTS:
            document = job.add({"text": text, "thread": number})
            result = job.result(document, timeout=60)
            found[document] = (text, result["translation"])
            assert result["thread"] == number

    with kv.open() as job:
        threads = [threading.Thread(target=ask, args=(job, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert job.refresh().state in ("running", "open")

    assert len(found) == 4 * len(TEXTS)
    assert all(translation == expected[text] for text, translation in found.values())
    job.wait(60)
    assert (job.ok, job.info["documents"]) == (True, 4 * len(TEXTS))
    assert {result["id"] for result in job.results()} == set(found)


def test_a_document_added_again_is_the_same_and_another_with_its_id_is_refused(kv: Client) -> None:
    with kv.open(key="comments") as job:
        first = job.result(job.add(TEXTS[0], id="a"), timeout=60)
        assert job.add(TEXTS[0], id="a") == "a"
        job.flush(30)
        assert job.result("a", timeout=60) == first
        assert job.add(TEXTS[1], id="a") == "a"
        job.flush(30)
        assert list(job.refused) == ["a"]
        assert job.result("a", timeout=60) == first
        with pytest.raises(SpecError, match="'empty'"):
            job.result(job.add(" ", id="empty"), timeout=30)
        with pytest.raises(TimeoutError):
            job.result("never added", timeout=0.2)

    assert job.wait(60).info["documents"] == 1
    with pytest.raises(SpecError, match=f"job {job.id}"):
        job.add(TEXTS[0])
    assert kv.job(job.id).state == "done"


def test_a_job_with_a_key_goes_on_after_an_error_and_its_results_follow(kv: Client) -> None:
    job = kv.open(key="stream")
    job.add(TEXTS[0], id="0")
    job.flush(30)
    job.__exit__(RuntimeError, RuntimeError("the program fails"), None)

    seen: list[str] = []
    with kv.open(key="stream") as again:
        assert again.id == job.id

        def follow() -> None:
            seen.extend(result["id"] for result in again.results(follow=True))

        reader = threading.Thread(target=follow)
        reader.start()
        for number, text in enumerate(TEXTS[1:], start=1):
            again.add(text, id=number)
            time.sleep(0.05)
    reader.join(60)

    assert sorted(seen) == [str(number) for number in range(len(TEXTS))]


def test_an_open_job_refuses_what_only_a_corpus_has(kv: Client) -> None:
    for options in ({"then": ["filter log_prob > -5"]}, {"format": "csv"}, {"again": True}, {"strict": True}):
        with pytest.raises(SpecError, match=next(iter(options))):
            kv.open(**options)
    assert kv.jobs() == []
>>>>>>> 1868a175 (kvjobs.open, a server as home, and the Celery task kvjobs.submit)
