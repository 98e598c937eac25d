"""The documents of a job by what became of them: each counts once, and progress is what was done."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.store.report.document_counts import OUTCOMES, sum_of
from jobs.store.report.job_summary import COUNTED, JobSummary
from tests.summaries import LIVE_JOB, READ_AT, RUNNING_JOB

NONE = dict.fromkeys(("succeeded", "failed", "quarantined", "rejected", "cancelled", "skipped", "waiting"), 0)
ENDED = {"state": "done", "finished_at": READ_AT}


def job(**columns: Any) -> JobSummary:
    return replace(RUNNING_JOB, **NONE | {"documents": sum(v for n, v in columns.items() if n in NONE)} | columns)


def test_each_document_has_one_outcome() -> None:
    counts = RUNNING_JOB.counts

    assert sum(getattr(counts, outcome) for outcome in OUTCOMES) == counts.documents == 1000
    assert (counts.waiting, counts.done, counts.not_ok) == (500, 490, 20)
    assert sum_of([counts, counts]).sentence() == counts.sentence().replace("480", "960").replace(
        "1,000", "2,000"
    ).replace("8 failed, 2 q", "16 failed, 4 q").replace("10 r", "20 r").replace("500", "1,000")


@pytest.mark.parametrize(
    ("columns", "share", "said"),
    [
        ({"rejected": 200, "waiting": 800}, 0, "0 of 1,000 documents ok, 200 rejected, 800 waiting"),
        ({"rejected": 200, "succeeded": 400, "waiting": 400}, 0.5, "200 rejected, 400 waiting"),
        ({"succeeded": 800, "rejected": 200} | ENDED, 1, "800 of 1,000 documents ok, 200 rejected"),
        ({"succeeded": 9, "failed": 6} | ENDED, 1, "9 of 15 documents ok, 6 failed"),
        ({"succeeded": 6, "cancelled": 9} | ENDED | {"state": "cancelled"}, 0.4, "6 of 15 documents ok, 9 cancelled"),
        ({"succeeded": 3, "skipped": 4, "task": "filter"} | ENDED, 1, "3 of 7 documents ok, 4 skipped"),
        ({"rejected": 2} | ENDED, 1, "0 of 2 documents ok, 2 rejected"),
        ({"succeeded": 1, "task": "rerank"} | ENDED, 1, "1 of 1 query ok"),
    ],
)
def test_rejected_lines_are_no_progress_and_a_cancelled_job_stays_where_it_was(
    columns: dict[str, Any], share: float, said: str
) -> None:
    found = job(**columns)

    assert found.share_done == pytest.approx(share)
    assert found.counts_in_words.endswith(said)


def test_a_stage_of_a_chain_counts_the_documents_that_it_has_not_got_yet() -> None:
    stage = job(succeeded=20, waiting=10, corpus_documents=100)

    assert (stage.counts.documents, stage.counts.waiting, stage.share_done) == (100, 80, 0.2)
    ended = replace(stage, **ENDED | {"state": "cancelled", "waiting": 0, "cancelled": 10})
    assert (ended.counts.documents, ended.counts.waiting) == (30, 0)


def test_a_job_is_partly_ok_where_more_is_not_ok_than_was_allowed() -> None:
    allowed = '{"max_rejected": "2"}'

    assert job(succeeded=9, failed=6, **ENDED).is_partly_ok
    assert job(succeeded=9, rejected=2, **ENDED).is_partly_ok
    assert not job(succeeded=9, rejected=2, reading=allowed, **ENDED).is_partly_ok
    assert job(succeeded=9, rejected=3, reading=allowed, **ENDED).is_partly_ok
    assert not job(succeeded=9, waiting=6).is_partly_ok


def test_rows_have_the_words_of_the_sentence() -> None:
    row = LIVE_JOB.as_row()

    assert {name: row[name] for name in COUNTED} == {"done": 490, "ok": 480, "not_ok": 20}
    assert {*OUTCOMES, "documents", "share_done"} <= row.keys()
