"""`kv.open`: documents come one by one, from many threads, and each result as soon as it is there."""

import threading
import time

import pytest

from kvjobs import Client, OpenJob, SpecError
from tests.end_to_end.test_python import TEXTS


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
        assert job.refresh().state in ("running", "awaiting")

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
    with pytest.raises(SpecError, match="'comments'"):
        kv.open(key="comments")


def test_a_job_with_a_key_goes_on_after_an_error_and_its_results_follow(kv: Client) -> None:
    job = kv.open(key="stream")
    job.add(TEXTS[0], id="0")
    job.flush(30)
    job.__exit__(RuntimeError, RuntimeError("the program fails"), None)

    seen: list[str | int] = []
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

    assert sorted(map(int, seen)) == [*range(len(TEXTS))]


def test_an_open_job_refuses_what_only_a_corpus_has(kv: Client) -> None:
    for options in ({"then": ["filter log_prob > -5"]}, {"format": "csv"}, {"again": True}, {"strict": True}):
        with pytest.raises(SpecError, match=next(iter(options))):
            kv.open(**options)
    assert kv.jobs() == []
