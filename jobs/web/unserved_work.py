"""The banner of a page where work waits and no worker takes it."""

from dataclasses import dataclass

from sqlalchemy import Connection

from jobs.advice.waiting_reasons import no_worker_sentence
from jobs.store.report.live_job import list_unserved_jobs
from jobs.store.report.waiting_work import service_of
from jobs.text.formatting import counted


@dataclass(frozen=True, slots=True)
class UnservedWork:
    job_ids: tuple[int, ...]  # oldest first
    sentence: str
    cure: str


def unserved_work(connection: Connection, silence_s: float) -> UnservedWork | None:
    """The jobs with work that no live worker takes; None where there are none. `cure` helps the oldest."""
    jobs = list_unserved_jobs(connection, silence_s)
    if not jobs:
        return None
    oldest, documents = jobs[0], sum(job.waiting for job in jobs)
    verb = "waits" if len(jobs) == 1 else "wait"
    sentence = f"{counted(len(jobs), 'job')} with {counted(documents, 'document')} {verb} for a worker."
    service = service_of(connection, oldest.queue, oldest.model, silence_s)
    return UnservedWork(tuple(job.job_id for job in jobs), sentence, no_worker_sentence(service, oldest.queue) or "")
