"""The loop of a lane, with several providers: what lands in SQL."""

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import select

from jobs.answers import Answers, Unanswered
from jobs.errors import NotFoundError
from jobs.providers import ProviderOrder, Reason
from jobs.store.database import Database
from jobs.store.queue.batches import Batch
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import result_tables, tables
from jobs.store.schema.provider_tables import JobProvider, ProviderChange
from tests.rows import SPEC, AddWaitingJob
from tests.store.worker.echo import Echo, keeper_of
from worker.drain import drain
from worker.engine.runtime.run_context import RunContext
from worker.providers.protocol import ProviderFailure, ProviderJob

TIMEOUT = Unanswered(Reason.TIMEOUT, "no answer within 60 s")


class Server(Echo):
    """A lane whose first provider, a server, does what a test says; its second one, in the process, echoes."""

    def __init__(self, serve: Callable[[Answers], Answers]) -> None:
        super().__init__()
        self._serve = serve

    def is_local(self, name: str) -> bool:
        return name == "onnx"

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        answer = super().process(job, documents, run)
        return answer if job.choice.name == "onnx" else self._serve(answer)


def add_job(add_waiting_job: AddWaitingJob, order: str, **sizes: int) -> int:
    return add_waiting_job(spec=replace(SPEC, providers=ProviderOrder.parse(order)), **sizes)


def counted(database: Database, job: int) -> list[tuple[str, int, int]]:
    columns = (JobProvider.provider, JobProvider.documents, JobProvider.handed_over)
    with database.reading() as connection:
        assert find_contradictions(connection, job) == []
        rows = connection.execute(select(*columns).where(JobProvider.job_id == job).order_by(JobProvider.place))
        return [tuple(row) for row in rows]


def test_the_documents_that_a_server_leaves_are_answered_in_the_process_and_both_are_on_record(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_job(add_waiting_job, "openai:m,onnx", documents=4, per_shard=4)

    def half(answer: Answers) -> Answers:
        return Answers([*answer.outcomes[:2], TIMEOUT, TIMEOUT])

    drain(database, Server(half), keeper_of(database))  # type: ignore[arg-type]

    assert counted(database, job) == [("openai", 2, 2), ("onnx", 2, 0)]
    with database.reading() as connection:
        of_results = connection.execute(
            select(result_tables.Translation.provider).order_by(result_tables.Translation.position)
        )
        assert of_results.scalars().all() == ["openai", "openai", "onnx", "onnx"]
        change = connection.execute(select(ProviderChange.__table__)).one()
    assert (change.provider, change.next_provider, change.code, change.documents) == ("openai", "onnx", "timeout", 2)


def test_where_no_provider_answers_documents_fail_with_every_reason_and_the_job_ends(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_job(add_waiting_job, "openai:m,ollama:m", documents=3, per_shard=3)

    def refuse(_: Answers) -> Answers:
        raise ProviderFailure(Reason.UNREACHABLE, "connection refused")

    drain(database, Server(refuse), keeper_of(database))  # type: ignore[arg-type]

    assert counted(database, job) == [("openai", 0, 3), ("ollama", 0, 3)]
    with database.reading() as connection:
        errors = set(connection.execute(select(tables.Document.error_code, tables.Document.error)).all())
        state = connection.execute(select(tables.Job.state)).scalar_one()
    message = "no provider answered; openai: connection refused; ollama: connection refused"
    assert errors == {("unanswered", message)}
    assert state == "done"


def test_a_job_of_a_single_server_without_the_model_fails_and_is_not_paused(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_job(add_waiting_job, "openai:m", documents=2, per_shard=2)

    def missing(_: Answers) -> Answers:
        raise NotFoundError("the server has no model m")

    drain(database, Server(missing), keeper_of(database))  # type: ignore[arg-type]

    assert counted(database, job) == [("openai", 0, 2)]
    with database.reading() as connection:
        assert connection.execute(select(tables.Job.state, tables.Job.paused)).one() == ("done", False)
