"""Insert a job that several providers have answered, as workers would have left it."""

from dataclasses import replace

from jobs.answers import Answers
from jobs.outcome import Failed, Flag, Outcome, Score, StepTiming
from jobs.providers import NO_PROVIDER, ONNX, Choice, Handover, ProviderOrder, Reason, Usage
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue.leases import lease
from jobs.store.queue.record import record
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.rows import SPEC, insert_waiting_job, translated

OPENAI = "openai"
HOSTILE_MODEL = "gpt-<b>4o</b>"
HOSTILE_REASON = "out of memory \x1b[31m<script>alert(1)</script>"
ORDER = ProviderOrder((Choice(ONNX), Choice(OPENAI, HOSTILE_MODEL), Choice("ollama", skipped="it cannot score a text")))
SCORED = JobSpec(
    task=Task.SCORE, model="demo-lm", model_revision="0123456789abcdef", options=ScoreOptions(), providers=ORDER
)
TRANSLATED = replace(SPEC, providers=ORDER)
LEASE_S = 60.0


def insert_answered_job(database: Database, spec: JobSpec = SCORED) -> int:
    """Insert a job of 4 documents, all of them ended: 1 by onnx, 2 by openai, 1 by no provider."""
    job_id = insert_waiting_job(database, documents=4, per_shard=4, spec=spec, model=spec.model)
    work = lease(database, 1, 0, LEASE_S, first_job=job_id)
    assert work is not None
    unanswered = Failed("unanswered", "no provider answered; onnx: out of memory; openai: HTTP 429")
    failed = Handover(ONNX, OPENAI, Reason.ENGINE_ERROR, HOSTILE_REASON, documents=3, is_change=True)
    limited = Handover(OPENAI, None, Reason.RATE_LIMIT, "HTTP 429 after 3 tries", documents=1, is_change=True)
    usage = Usage(OPENAI, requests=5, prompt_tokens=1_500, completion_tokens=20, cost=0.0125)
    record(
        database,
        work,
        0,
        Answers(
            [*_results(spec), unanswered],
            timings=[StepTiming("prefill", 0, 1, 10, 0, 0.5), StepTiming("request", 0, 3, 1_520, 0, 1.5)],
            usage=[usage],
            answered_by=[ONNX, OPENAI, OPENAI, NO_PROVIDER],
            handovers=[failed, limited],
        ),
        lease_s=LEASE_S,
    )
    return job_id


def _results(spec: JobSpec) -> list[Outcome]:
    if spec.task is Task.SCORE:
        return [Score(20.0, 10, 8, 40), Score(30.0, 10, 8, 40), Score(40.0, 10, 8, 40)]
    unknown = replace(translated("云"), log_prob=None, flags=(Flag.UNSCORED,))
    return [translated("雨"), unknown, unknown]
