"""Who answered: each document has its provider, and each provider is counted once, whatever is repeated."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select, update

from jobs.errors import StaleLease
from jobs.outcome import Failed, Flag, Outcome, Quarantined, RankedCandidate, Ranking, Score
from jobs.providers import NO_PROVIDER, ONNX, Choice, Handover, ProviderOrder, Reason, Usage
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import retry
from jobs.store.queue import deaths
from jobs.store.schema import result_tables, tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider, ProviderChange
from jobs.store.schema.results import as_stored
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.rows import SPEC, AddWaitingJob, translated
from tests.store.leasing import contradictory, counts, take, value, write

ORDER = ProviderOrder((Choice(ONNX), Choice("openai", "gpt"), Choice("ollama", skipped="it gives no scores")))
THREE = replace(SPEC, providers=ORDER)
OPENAI = "openai"
DOWN = Handover(ONNX, OPENAI, Reason.OPEN_ERROR, "its model cannot be loaded", documents=3, is_change=True)
USAGE = Usage(OPENAI, requests=2, prompt_tokens=30, completion_tokens=20, cost=0.25)
OUTCOMES: list[Outcome] = [
    translated(),
    translated(),
    Failed("refused", "the text is not for it"),
    Failed("unanswered", "nobody answered"),
]
MIXED = {
    "outcomes": OUTCOMES,
    "answered_by": [ONNX, OPENAI, OPENAI, NO_PROVIDER],
    "handovers": [DOWN],
    "usage": [USAGE],
}


def listed(database: Database, job: int) -> list[dict[str, object]]:
    """The rows of the job's providers, without the values that are 0."""
    with database.reading() as connection:
        rows = connection.execute(
            select(JobProvider.__table__).where(JobProvider.job_id == job).order_by(JobProvider.place)
        )
        return [{name: value for name, value in row.items() if value and name != "job_id"} for row in rows.mappings()]


def test_each_document_keeps_who_answered_it_and_each_provider_is_counted(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    work = take(database)
    assert work.spec == THREE

    write(database, work, **MIXED)

    assert value(database, result_tables.Translation.provider, result_tables.Translation.position == 1) == OPENAI
    assert listed(database, job) == [
        {"provider": ONNX, "model": SPEC.model, "documents": 1, "handed_over": 3},
        {
            "place": 1,
            "provider": OPENAI,
            "model": "gpt",
            "documents": 1,
            "failed": 1,
            "requests": 2,
            "prompt_tokens": 30,
            "completion_tokens": 20,
            "cost": 0.25,
        },
        {"place": 2, "provider": "ollama", "model": SPEC.model, "skipped": "it gives no scores"},
    ]
    assert contradictory(database, job) == []


def test_a_reason_is_kept_with_the_number_of_its_documents(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=8, per_shard=4, spec=THREE)
    declined = replace(DOWN, code=Reason.DECLINED, reason="too long", documents=1, is_change=False)
    again = replace(DOWN, reason="still not", documents=2)
    back = replace(DOWN, code=Reason.NOT_ASKED, documents=0)
    answered = [ONNX, OPENAI, OPENAI, OPENAI]

    for handovers in ([DOWN, declined], [again, back]):
        write(database, take(database), outcomes=[translated()] * 4, answered_by=answered, handovers=handovers)

    with database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM v_handovers ORDER BY code")
        assert [tuple(row) for row in rows] == [
            (job, ONNX, "declined", 1, "too long"),
            (job, ONNX, "open-error", 5, "its model cannot be loaded"),
        ]
    assert listed(database, job)[0]["handed_over"] == 6
    assert contradictory(database, job) == []


def test_a_change_of_the_provider_has_its_moment_and_its_reason(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=4, per_shard=4, spec=THREE)
    quiet = replace(DOWN, provider=OPENAI, next_provider=None, code=Reason.TIMEOUT, is_change=False)

    write(database, take(database), **{**MIXED, "handovers": [DOWN, quiet]})

    with database.reading() as connection:
        (row,) = connection.execute(select(ProviderChange.__table__)).mappings()
    assert (row["provider"], row["next_provider"], row["code"]) == (ONNX, OPENAI, "open-error")
    assert (row["reason"], row["documents"], row["epoch"]) == ("its model cannot be loaded", 3, 1)
    assert row["at"] == value(database, result_tables.Translation.finished_at, result_tables.Translation.position == 0)


def test_a_repeated_record_counts_no_provider_twice(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    work = take(database)

    write(database, work, **MIXED)
    once = listed(database, job)
    write(database, work, **MIXED)

    assert listed(database, job) == once
    assert value(database, func.count(ProviderChange.id)) == 1


def test_a_refused_worker_leaves_no_trace_of_its_providers(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)
    write(database, take(database), outcomes=OUTCOMES)

    with pytest.raises(StaleLease):
        write(database, sleeper, **MIXED)

    assert listed(database, job)[1] == {"place": 1, "provider": OPENAI, "model": "gpt"}
    assert value(database, func.count(ProviderChange.id)) == 0


def test_the_first_result_of_a_document_keeps_its_provider(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """A document may have a result already when its batch is recorded: then the later answer is dropped, uncounted."""
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    work = take(database)
    whose = {"job_id": job, "position": 0, "shard_id": 1, "epoch": 1, "worker_id": 2, "finished_at": db_time()}
    first = as_stored(translated("first"))
    assert isinstance(first, dict)
    with database.writing() as connection:
        connection.execute(insert(result_tables.Translation).values(**whose, **first, provider=ONNX))

    write(database, work, outcomes=[translated("second")] * 4, answered_by=[OPENAI] * 4)

    assert value(database, result_tables.Translation.provider, result_tables.Translation.position == 0) == ONNX
    assert [row.get("documents") for row in listed(database, job)] == [None, 3, None]


def test_a_document_that_is_retried_counts_for_the_provider_that_answers_it(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    write(database, take(database), **MIXED)
    retry(database, job)

    write(database, take(database), outcomes=[translated()] * 2, answered_by=[OPENAI, OPENAI])

    assert [(row.get("documents"), row.get("failed")) for row in listed(database, job)] == [
        (1, None),
        (3, 1),
        (None, None),
    ]
    assert contradictory(database, job) == []


def test_without_a_word_about_providers_onnx_has_answered(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)

    write(database, take(database), outcomes=[translated(), translated(), Quarantined("killed", "two workers died")])

    assert listed(database, job) == [{"provider": ONNX, "model": SPEC.model, "documents": 2, "failed": 1}]
    assert value(database, tables.Job.providers) is None
    assert contradictory(database, job) == []


def test_a_ranking_without_a_provider_keeps_its_order_and_counts_for_nobody(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    spec = JobSpec(task=Task.RERANK, model="m", model_revision="r", options=RerankOptions(), providers=ORDER)
    job = add_waiting_job(documents=1, per_shard=1, spec=spec)
    kept = Ranking((RankedCandidate("a", 1, None, 2.0),), 0, 0, 0, (Flag.KEPT_ORDER,))

    write(database, take(database), outcomes=[kept], answered_by=[NO_PROVIDER])

    assert value(database, result_tables.Ranking.provider) == NO_PROVIDER
    assert counts(database, job).succeeded == 1
    assert not any("documents" in row for row in listed(database, job))
    assert contradictory(database, job) == []


def test_the_recount_finds_a_provider_that_is_counted_wrongly_or_unknown(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    spec = JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions(), providers=ORDER)
    job = add_waiting_job(documents=3, per_shard=3, spec=spec)
    write(database, take(database), outcomes=[Score(1.0, 1, 1, 1)] * 3, answered_by=[ONNX, OPENAI, ONNX])
    assert contradictory(database, job) == []

    with database.writing() as connection:
        connection.execute(update(result_tables.Score).where(result_tables.Score.position == 1).values(provider="vllm"))

    assert contradictory(database, job) == [
        "the provider openai has 1 documents, the recount 0",
        "results of vllm, which is not a provider of the job: 1",
    ]


def test_an_unknown_log_probability_has_no_perplexity_and_is_no_contradiction(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2, spec=THREE)

    unknown = replace(translated(), log_prob=None, flags=(Flag.UNSCORED,))
    write(database, take(database), outcomes=[unknown, translated()], answered_by=[OPENAI, ONNX])

    assert value(database, result_tables.Translation.log_prob, result_tables.Translation.position == 0) is None
    with database.reading() as connection:
        measures = connection.exec_driver_sql("SELECT measure, sum(documents) FROM v_measures GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in measures] == [("length", 2), ("perplexity", 1)]
    assert contradictory(database, job) == []


def test_the_providers_of_a_job_go_with_it(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=THREE)
    write(database, take(database), **MIXED)

    prune_jobs(database, [job])

    for column in (JobProvider.place, HandoverCounts.code, ProviderChange.id):
        assert value(database, func.count(column)) == 0


def test_the_stored_order_is_that_of_the_job(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=1, per_shard=1, spec=THREE)

    stored = str(value(database, tables.Job.providers))

    assert ProviderOrder.from_json(stored) == ORDER
    assert json.loads(stored)["fallback"] is True
