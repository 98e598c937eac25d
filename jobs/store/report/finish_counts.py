"""Why the continuations of a generating job ended."""

from sqlalchemy import Connection, func, select

from jobs.outcome import Finish
from jobs.spec import Task
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.result_tables import Generation


def finish_counts(connection: Connection, job: JobSummary) -> dict[str, int]:
    """The documents of each reason, in the order of `Finish`; empty for a job of another task, and where nothing has
    ended. Reads every result of the job."""
    if job.task != Task.GENERATE:
        return {}
    rows = connection.execute(
        select(Generation.finish, func.count()).where(Generation.job_id == job.job_id).group_by(Generation.finish)
    )
    found = {row[0]: row[1] for row in rows}
    return {finish.value: found[finish] for finish in Finish if finish in found}
