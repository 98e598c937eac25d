"""Jobs that documents are appended to while workers process them."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from jobs.documents import AppendState
from jobs.errors import LimitReached, NotFoundError, SpecError
from jobs.export.running_results import new_results, results_of_ids
from jobs.outcome import Failed
from jobs.stage import Stage
from jobs.store.database import Database
from jobs.store.jobs import cancel, close, retry
from jobs.store.queue import leases
from jobs.store.report.job_summary import find_job
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, JobCounts, Shard
from jobs.submission.open_job import append, corpus_of_documents, find_open_job, open_job
from tests.rows import translated
from tests.store.leasing import contradictory, take, write
from tests.store.submission.corpora import GREEDY, SPEC, Submit, lines, num_jobs, rows
from tests.store.submission.open_jobs import ADDED, REFUSED, Open, documents, states, summary, texts, work


def test_an_open_job_has_an_owner_and_counts_among_its_jobs(database: Database) -> None:
    first, _ = open_job(database, corpus_of_documents(SPEC), SPEC, owner="ci", max_open=1, key="a")
    with pytest.raises(LimitReached):
        open_job(database, corpus_of_documents(SPEC), SPEC, owner="ci", max_open=1, key="b")

    assert open_job(database, corpus_of_documents(SPEC), SPEC, owner="ci", max_open=1, key="a")[0] == first
    with database.reading() as connection:
        assert find_job(connection, str(first.job_id)).owner == "ci"


def test_documents_are_appended_behind_those_that_are_there_and_can_be_leased_at_once(
    database: Database, opened: Open
) -> None:
    job = opened()
    first = append(database, job, documents("a", "b"))
    second = append(database, job, documents("c"))

    assert [(found.external_id, found.state, found.position) for found in first] == [("a", ADDED, 0), ("b", ADDED, 1)]
    assert [found.position for found in second] == [2]
    assert texts(database, job) == [(0, "a", "text of a"), (1, "b", "text of b"), (2, "c", "text of c")]
    assert [document.position for document in take(database).batches[0]] == [0, 1, 2]
    assert contradictory(database, job.job_id) == []


def test_an_open_job_is_done_after_it_was_closed_and_not_before(database: Database, opened: Open) -> None:
    job = opened()
    append(database, job, documents("a"))
    work(database)
    idle = summary(database, job)
    append(database, job, documents("b"))
    close(database, job.job_id)
    closed = summary(database, job)
    work(database)
    done = summary(database, job)

    assert (idle.state, idle.is_open, idle.waiting) == ("running", True, 0)
    assert (closed.state, closed.is_open) == ("running", False)
    assert (done.state, done.succeeded, done.exit_code) == ("done", 2, 0)
    assert closed.closed_at == done.closed_at is not None
    assert contradictory(database, job.job_id) == []


def test_a_job_that_is_closed_while_nothing_waits_is_done_at_once(database: Database, opened: Open) -> None:
    job = opened()
    close(database, job.job_id)
    finished_at = summary(database, job).finished_at
    close(database, job.job_id)

    assert summary(database, job).state == "done"
    assert summary(database, job).finished_at == finished_at  # to close it again changes nothing


def test_a_job_of_a_corpus_is_never_open(database: Database, send: Submit) -> None:
    submitted = send(lines("one"))
    for refused in (lambda: close(database, submitted.job_id), lambda: find_open_job(database, submitted.job_id)):
        with pytest.raises(SpecError, match=f"job {submitted.job_id} "):
            refused()
    for missing in (lambda: close(database, 99), lambda: find_open_job(database, 99)):
        with pytest.raises(NotFoundError):
            missing()


def test_the_same_key_with_the_same_options_is_the_same_job_also_when_it_is_closed(database: Database) -> None:
    corpus = corpus_of_documents(SPEC)
    first, is_new = open_job(database, corpus, SPEC, key="comments", name="nightly")
    again, is_new_again = open_job(database, corpus, SPEC, key="comments", name="nightly")
    close(database, first.job_id)
    closed, _ = open_job(database, corpus, SPEC, key="comments")

    assert (is_new, is_new_again) == (True, False)
    assert first.job_id == again.job_id == closed.job_id
    assert (again.is_open, closed.is_open) == (True, False)
    with pytest.raises(SpecError, match=f"job {first.job_id} was closed"):
        append(database, again, documents("a"))


def test_a_key_with_other_options_or_another_reading_is_refused_with_the_number_of_its_job(
    database: Database, opened: Open
) -> None:
    job = opened(key="comments")
    for how in ({"spec": GREEDY}, {"of_documents": {"text_field": "body"}}):
        with pytest.raises(SpecError, match=f"job {job.job_id} "):
            opened(key="comments", **how)
    assert num_jobs(database) == 1


def test_without_a_key_each_job_is_a_new_one_and_a_name_belongs_to_one(database: Database, opened: Open) -> None:
    assert opened().job_id != opened(name="nightly").job_id
    with pytest.raises(SpecError, match="nightly"):
        opened(name="nightly")
    assert num_jobs(database) == 2


def test_a_cancel_closes_an_open_job_and_a_retry_does_not_open_it_again(database: Database, opened: Open) -> None:
    job = opened()
    append(database, job, documents("a", "b"))

    assert cancel(database, job.job_id) == 2
    assert (summary(database, job).state, summary(database, job).is_open) == ("cancelled", False)
    with pytest.raises(SpecError, match="cancelled"):
        append(database, job, documents("c"))

    assert retry(database, job.job_id) == 2
    assert (summary(database, job).state, summary(database, job).is_open) == ("running", False)
    work(database)
    assert (summary(database, job).state, summary(database, job).succeeded) == ("done", 2)
    assert contradictory(database, job.job_id) == []


def test_a_retry_of_failed_documents_leaves_an_open_job_open(database: Database, opened: Open) -> None:
    job = opened()
    append(database, job, documents("a"))
    write(database, take(database), outcomes=[Failed("too-long", "it is too long")])
    assert retry(database, job.job_id) == 1
    work(database)

    assert (summary(database, job).state, summary(database, job).is_open) == ("running", True)
    assert summary(database, job).succeeded == 1
    assert contradictory(database, job.job_id) == []


def test_appends_of_many_threads_and_workers_at_the_same_time_lose_and_double_nothing(
    database: Database, opened: Open
) -> None:
    job = opened()
    num_threads, num_appends = 8, 12

    def send(thread: int) -> list[AppendState]:
        """Each document is sent twice, the second time beside a new one; and another thread sends it too."""
        found = []
        for number in range(num_appends):
            sent = documents(f"{thread // 2}-{number}", f"{thread // 2}-{number + 1}")
            found += states(database, job, sent)
        return found

    with ThreadPoolExecutor(num_threads) as pool:
        found = [state for states_of_thread in pool.map(send, range(num_threads)) for state in states_of_thread]

    num_documents = num_threads // 2 * (num_appends + 1)
    assert found.count(ADDED) == num_documents
    assert REFUSED not in found
    assert [row[0] for row in texts(database, job)] == list(range(num_documents))
    assert contradictory(database, job.job_id) == []


def test_the_results_of_ids_say_what_each_document_has_come_to(database: Database, opened: Open) -> None:
    job = opened()
    append(database, job, [{"id": 1, "text": "one", "lang": "en"}, {"id": "b", "text": "two"}])
    write(database, take(database), outcomes=[translated("eins"), Failed("too-long", "it is too long")])
    append(database, job, documents("c"))

    found = results_of_ids(database, summary(database, job), ["c", "1", "b", "unknown"])
    values = {external_id: json.loads(line) for external_id, line in found.items()}

    assert values.keys() == {"1", "b", "c"}
    assert (values["1"]["id"], values["1"]["translation"], values["1"]["lang"]) == (1, "eins", "en")
    assert (values["b"]["status"], values["b"]["error"]["code"]) == ("failed", "too-long")
    assert values["c"]["status"] == "waiting"


def test_a_reader_gets_each_document_once_in_whatever_order_they_end(database: Database, opened: Open) -> None:
    job = opened()
    shards = []
    for start in range(0, 9, 3):
        append(database, job, documents(*map(str, range(start, start + 3))))
        shards.append(take(database))
    seen: list[list[str]] = []
    place = ""

    def read(limit: int = 500) -> bool:
        nonlocal place
        found = new_results(database, summary(database, job), place, limit)
        seen.append([json.loads(line)["id"] for line in found.lines])
        place = found.place
        return found.is_last

    read()
    write(database, shards[1], outcomes=[translated(), Failed("too-long", "long"), translated()])
    read(2)
    read(2)
    write(database, shards[2])
    write(database, shards[0])
    assert not read()
    close(database, job.job_id)

    assert read()  # the job has ended, and nothing is left
    assert seen == [[], ["3", "4"], ["5"], ["0", "1", "2", "6", "7", "8"], []]
    assert place == "0-9"


def test_a_job_that_stays_open_has_no_later_stages(database: Database) -> None:
    with pytest.raises(SpecError, match="stages"):
        open_job(database, corpus_of_documents(SPEC), SPEC, stages=[Stage(SPEC, 1)])
    assert num_jobs(database) == 0


def test_an_open_job_that_has_ended_is_a_contradiction(database: Database, opened: Open) -> None:
    job = opened()
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id == job.job_id).values(state=JobState.DONE))

    assert [line for line in contradictory(database, job.job_id) if "open" in line]


def test_tables_of_an_open_job_say_what_those_of_a_corpus_say(database: Database, opened: Open) -> None:
    job = opened(priority=5)
    append(database, job, documents("a", "b"))

    assert rows(database, Job, "task", "priority", "queue", "state", "paused", "chain", id=job.job_id) == [
        ("translate", 5, "cpu", "running", False, None)
    ]
    assert rows(database, Shard, "start", "stop", "state", job_id=job.job_id) == [(0, 2, "ready")]
    assert rows(database, JobCounts, "documents", "shards_open", job_id=job.job_id) == [(2, 1)]


@pytest.mark.parametrize("end", [close, cancel])
def test_a_job_that_ends_while_documents_are_appended_has_all_that_were_accepted(
    database: Database, opened: Open, end: Callable[[Database, int], object]
) -> None:
    job = opened()
    begun = threading.Barrier(5)

    def send(thread: int) -> int:
        """How many documents were added before the job took no more."""
        added = 0
        for number in range(10_000):
            try:
                added += states(database, job, documents(f"{thread}-{number}")).count(ADDED)
            except SpecError:
                return added
            if number == 2:
                begun.wait()
        raise AssertionError("the job took documents after its end")

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, thread) for thread in range(4)]
        begun.wait()
        end(database, job.job_id)
        added = sum(future.result() for future in sending)
    while leases.lease(database, 1, 0, 60) is not None:
        pass

    ended = summary(database, job)
    assert ended.documents == added > 0
    assert (ended.state, ended.cancelled) == (("cancelled", added) if end is cancel else ("running", 0))
    assert contradictory(database, job.job_id) == []
