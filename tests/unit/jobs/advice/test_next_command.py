"""The commands that are advised next bring the job on: what would fail again is not retried."""

import re
from dataclasses import replace
from typing import Any

import pytest

from jobs.advice.next_command import CURES, next_steps
from jobs.corpus.corpus import Corpus
from jobs.providers import UNANSWERED, ProviderOrder
from jobs.spec import JobSpec
from jobs.store.queue.pauses import how_to_try
from jobs.store.report.failures import Failure
from jobs.submit_command import StoredSubmit, trial_command
from jobs.tasks.score import Bos, ScoreOptions, Window
from jobs.tasks.task import Task
from tests.places import CHECKOUT
from tests.summaries import LIVE_JOB, READ_AT

DONE = replace(
    LIVE_JOB,
    state="done",
    finished_at=READ_AT,
    waiting=0,
    rejected=0,
    failed=0,
    quarantined=0,
    reading=Corpus(path="/data/corpus.csv").reading,
)
SUBMIT = "kvjobs submit /data/corpus.jsonl --task translate --model demo-en-zh"
RETRY, EXPORT = "kvjobs retry 9", "kvjobs export 9 -o job-9.jsonl"


def commands(job: Any = DONE, **failed: str) -> list[str]:
    """Of a job with one document per status and code."""
    bad = [Failure(status, code.replace("_", "-") or None, 1, ()) for code, status in failed.items()]
    return [step.command for step in next_steps(job, bad)]


def taken(code: str, status: str = "failed") -> str:
    which = f"status = '{status}'" + (f" and error_code = '{code}'" if code else "")
    return f'kvjobs export 9 --where "{which}" --format original -o job-9-{code or status}.csv'


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ({}, "kvjobs watch 9"),
        ({"has_worker": False}, "kvjobs worker"),
        ({"has_worker": False, "queue": "gpu"}, "kvjobs worker --device cuda:0"),
        ({"has_worker": False, "paused": True}, "kvjobs resume 9"),
        ({"state": "ingesting"}, f"{SUBMIT} --batch-size 32 --again"),
        ({"state": "failed"}, f"{SUBMIT} --batch-size 32 --again"),
        ({"state": "failed", "source": "standard input"}, "kvjobs db prune 9"),
        ({"state": "cancelled", "cancelled": 5}, RETRY),
        ({"state": "done", "task": "score"}, "kvjobs totals 9"),
    ],
)
def test_each_state_has_a_first_step(columns: dict[str, Any], command: str) -> None:
    assert commands(replace(LIVE_JOB, **columns))[0] == command


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("engine-error", RETRY),
        ("unanswered", RETRY),
        ("empty-answer", RETRY),
        ("a-newer-code", RETRY),
        ("refused", taken("refused")),
        ("too-long", taken("too-long")),
        ("empty-prompt", taken("empty-prompt")),
        ("chat-template", taken("chat-template")),
        ("bad-pair", taken("bad-pair")),
        ("bad-payload", taken("bad-payload")),
        ("non-finite", "kvjobs models verify demo-en-zh"),
        ("unscorable", "kvjobs models inspect demo-en-zh"),
    ],
)
def test_only_what_may_pass_is_retried(code: str, command: str) -> None:
    assert commands(**{code: "failed"}) == [command, EXPORT]
    assert (command == RETRY) or RETRY not in commands(**{code: "failed"})


def test_every_code_that_an_engine_or_a_provider_gives_has_a_cure() -> None:
    sources = (path.read_text("utf-8") for path in (CHECKOUT / "worker").rglob("*.py"))
    given = {code for source in sources for code in re.findall(r'\bFailed\(\s*"([a-z-]+)"', source)}

    assert {"too-long", "non-finite"} < given
    assert {("failed", code) for code in (*given, UNANSWERED)} <= CURES.keys()


def test_the_lines_that_kill_their_process_are_taken_out_and_rejected_ones_listed() -> None:
    assert commands(killed="quarantined") == [taken("killed", "quarantined"), EXPORT]
    assert commands(bad_json="rejected") == [EXPORT, "kvjobs query --saved failed-documents -p job 9"]
    both = commands(engine_error="failed", too_long="failed", unanswered="failed", no_text="rejected")
    assert both == [taken("too-long"), RETRY, RETRY, EXPORT, "kvjobs query --saved failed-documents -p job 9"]
    cancelled = replace(DONE, state="cancelled", cancelled=3)
    assert commands(cancelled, too_long="failed")[:2] == [RETRY, taken("too-long")]


def test_a_corpus_without_lines_is_taken_out_as_results() -> None:
    beir = replace(DONE, task="rerank", options="{}", reading='{"format": "beir", "holds": "candidates"}')

    (step, _) = next_steps(beir, [Failure("failed", "bad-payload", 1, ())])

    assert (
        step.command
        == "kvjobs export 9 --where \"status = 'failed' and error_code = 'bad-payload'\" -o job-9-bad-payload.jsonl"
    )


def test_documents_in_flight_when_workers_died_are_tried_with_all_options_of_their_job() -> None:
    options = ScoreOptions(window=Window.DISJOINT, max_length=64, bos=Bos.EOS)
    reading = Corpus(path="/data/corpus.csv", delimiter=";", encoding="cp1252", text_field="body").reading
    order = ProviderOrder.parse("llamacpp", fallback=False)
    spec = JobSpec(task=Task.SCORE, model="my model", model_revision="r", options=options)
    job = {
        "task": "score", "model": "my model", "model_revision": "r", "options": spec.options_json(),
        "providers": order.to_json(), "source": "/data/corpus.csv",
        "reading": reading, "priority": 0, "queue": "gpu", "reads": None,
    }  # fmt: skip

    alone = how_to_try(9, job, [7, 5, 6], lambda job, file: trial_command(StoredSubmit(**job), file))

    assert 'kvjobs export 9 --only waiting --where "position between 5 and 7" --format original' in alone
    assert (
        "&& kvjobs submit job-9-suspects.csv --task score --model 'my model' --window disjoint --max-length 64 "
        "--bos eos --delimiter semicolon --text-field body --queue gpu --providers llamacpp --no-fallback --wait; "
        "then: kvjobs resume 9"
    ) in alone
    for columns, positions in (({}, []), ({"reading": None}, [5]), ({"reading": '{"format": "beir"}'}, [5])):
        assert "kvjobs models verify 'my model'" in how_to_try(9, job | columns, positions, lambda *_: "never")
