"""The head of the page of a job."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.store.report.document_counts import OUTCOMES
from jobs.web.job_page.header import lines, state_sentence, tiles, time_left
from jobs.web.rendering import _environment
from tests.summaries import LIVE_JOB, READ_AT

macros: Any = _environment.get_template("macros.html").module
COUNTS = "480 of 1,000 documents ok, 8 failed, 2 quarantined, 10 rejected, 500 waiting."


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, COUNTS),
        ({"started_at": None}, "No worker has begun."),
        ({"has_worker": False}, f"It waits for a worker: {COUNTS}"),
        ({"paused": True, "reason": "lunch"}, f"Paused (lunch): {COUNTS}"),
        ({"cancel_requested_at": READ_AT}, f"It is being cancelled: {COUNTS}"),
        (
            {"state": "done", "finished_at": READ_AT, "waiting": 0, "succeeded": 980},
            "980 of 1,000 documents ok, 8 failed, 2 quarantined, 10 rejected.",
        ),
        ({"state": "failed", "reason": "bad lines"}, "The corpus was refused (bad lines)."),
        (
            {"state": "ingesting"},
            "The corpus is being read, 1,000 documents so far; workers begin when it is complete.",
        ),
        ({"task": "rerank", "options": "{}"}, COUNTS.replace("documents", "queries")),
    ],
)
def test_a_sentence_says_where_the_job_is(columns: dict[str, Any], sentence: str) -> None:
    assert state_sentence(replace(LIVE_JOB, **columns)) == sentence


@pytest.mark.parametrize(("columns", "is_said"), [({"paused": True}, True), ({"state": "done"}, False)])
def test_a_job_that_is_done_was_paused_for_a_reason_that_is_no_more(columns: dict[str, Any], is_said: bool) -> None:
    job = replace(LIVE_JOB, reason="lunch", succeeded=1000, failed=0, quarantined=0, rejected=0, **columns)

    for said in (job.because, macros.job_state(job)):
        assert ("lunch" in said) is is_said


def test_time_left_is_told_of_a_running_job_alone() -> None:
    assert time_left(LIVE_JOB) == "1 min 40 s to go"
    assert time_left(replace(LIVE_JOB, estimated_done=0)) == "time left unknown"
    assert time_left(replace(LIVE_JOB, has_worker=False)) == ""
    assert time_left(replace(LIVE_JOB, paused=True)) == ""


def test_only_states_that_documents_have_are_tiles() -> None:
    names = {tile["name"]: tile for tile in tiles(LIVE_JOB)}

    assert "Cancelled" not in names
    assert (names["Quarantined"]["value"], names["Quarantined"]["is_bad"]) == ("2", True)
    assert (names["Segments reused"]["value"], names["Segments reused"]["note"]) == ("300", "10.0 % of 3,000")


def test_the_speed_is_that_of_the_last_minute_while_a_job_runs() -> None:
    def speed(**columns: Any) -> str:
        return next(tile["value"] for tile in tiles(replace(LIVE_JOB, **columns)) if tile["name"] == "Tokens/s")

    assert (speed(recent_tokens_per_s=12.0), speed(recent_tokens_per_s=0.0)) == ("12.0", "0")
    assert speed(state="done", finished_at=READ_AT, recent_tokens_per_s=None) == "600"


def test_what_the_stage_before_will_hand_on_waits_too() -> None:
    later = replace(LIVE_JOB, stage=2, corpus_documents=1200)
    shown = {tile["name"].lower(): tile["value"] for tile in tiles(later)}

    assert shown["waiting"] == "700"
    assert sum(int(shown[outcome]) for outcome in OUTCOMES if outcome in shown) == later.total_documents


def test_a_job_without_failures_says_0_once() -> None:
    fine = replace(LIVE_JOB, succeeded=500, failed=0, rejected=0, quarantined=0)

    assert [tile["name"] for tile in tiles(fine)][:3] == ["Ok", "Waiting", "Not ok"]


def test_only_options_that_were_changed_are_named() -> None:
    given = '{"batch_size":16,"beam_size":null,"cache":"off","reuse":false,"source_language":"en","timing":"steps"}'

    said = {line["name"]: line["value"] for line in lines(replace(LIVE_JOB, options=given))}

    assert said["Options"] == "batch_size 16, cache off, reuse off"
