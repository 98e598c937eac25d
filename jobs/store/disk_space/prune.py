"""Deleting ended jobs with all their rows, in short transactions, while workers go on recording."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, func, not_, or_, select, tuple_, update

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.disk_space.free_pages import Write, empty_log, give_back_free_pages, write_in_turns
from jobs.store.glossaries import prune_glossaries
from jobs.store.queue.chains import chain_of
from jobs.store.queue.job_counters import lock_counters
from jobs.store.schema.clock import db_time
from jobs.store.schema.delta_table import Delta
from jobs.store.schema.file_table import JobFile
from jobs.store.schema.provider_tables import ProviderChange
from jobs.store.schema.results import RESULTS
from jobs.store.schema.rollup_tables import SUMS, RecordedBatch
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.store.schema.step_table import Step
from jobs.store.schema.tables import Document, Job, Shard, ShardEvent
from jobs.system.failpoints import failpoint

# So many free pages are given back before more rows are deleted. For each page SQLite searches the list of free pages
# from its start: with 500,000 in the list it gave back 1,100 a second, three quarters of that spent on the search.
MAX_FREE_PAGES = 8_192
REASON = "being pruned; if that was interrupted: kvjobs db prune {job_id}"


class Pruned(NamedTuple):
    """What was deleted."""

    rows: int  # with those of the jobs themselves, without glossaries
    glossaries: int  # that no job has


def ended_before(connection: Connection, days: float) -> list[int]:
    """Jobs that ended more than so many days ago, and of chains those in which all stages did."""
    ended_at = func.coalesce(Job.finished_at, Job.created_at)
    is_old = and_(Job.state.in_(ENDED_STATES), ended_at < db_time(-86400 * days))
    others = select(Job.chain).where(Job.chain.is_not(None), not_(is_old))
    old = select(Job.id).where(is_old, or_(Job.chain.is_(None), Job.chain.not_in(others))).order_by(Job.id)
    return list(connection.execute(old).scalars())


def prune_jobs(
    database: Database,
    job_ids: Collection[int],
    advance: Callable[[int], None] = lambda rows: None,
    shortened: Callable[[int], None] = lambda num_bytes: None,
) -> Pruned:
    """Delete ended jobs (chains as a whole) and all glossaries that no job has, also where `job_ids` are none, and give
    the free pages of a SQLite file back to the disk, where it can be shortened. After each transaction `advance` is
    called with the number of rows, or `shortened` with the number of bytes.

    If interrupted, call it again: the jobs themselves are deleted last, when their space was given back.
    """
    with database.writing() as connection:
        job_ids = sorted({stage_id for job_id in job_ids for stage_id in chain_of(connection, job_id)})
        for job_id in job_ids:
            _claim(connection, job_id)
    deleted = 0

    def count(rows: int) -> None:
        nonlocal deleted
        deleted += rows
        failpoint("in-prune")
        advance(rows)
        give_back_free_pages(database, shortened, unless_fewer_than=MAX_FREE_PAGES)

    for job_id in job_ids:
        _delete_rows(database, job_id, count)
    give_back_free_pages(database, shortened)
    with database.writing() as connection:
        connection.execute(delete(Job).where(Job.id.in_(job_ids)))  # deletes their counters and providers too
    glossaries = prune_glossaries(database)
    give_back_free_pages(database, shortened)
    empty_log(database)
    return Pruned(deleted + len(job_ids), glossaries)


def _claim(connection: Connection, job_id: int) -> None:
    """Mark the job as incomplete: from now on it cannot be exported, resumed or found by its name."""
    lock_counters(connection, job_id)  # a retry commits before this and is seen here, or finds the job failed
    claimed = connection.execute(
        update(Job)
        .where(Job.id == job_id, Job.state.in_(ENDED_STATES))
        .values(
            state=JobState.FAILED,
            reason=REASON.format(job_id=job_id),
            name=None,
            content_key=f"pruned {job_id}",
        )
    )
    if not claimed.rowcount:
        raise SpecError(f"job {job_id} was retried or deleted meanwhile; nothing was deleted")


def _delete_rows(database: Database, job_id: int, advance: Callable[[int], None]) -> None:
    positioned = (_by_position(table, job_id) for table in (*RESULTS.values(), Document))
    # The shards before their log: nothing is logged about a shard that does not exist.
    others = (Shard, Delta, Step, ShardEvent, RecordedBatch, ProviderChange, JobFile, *SUMS)
    for write in (*positioned, *(_by_key(table, job_id) for table in others)):
        write_in_turns(database, write, advance)


def _by_position(table: Any, job_id: int) -> Write:
    def write(connection: Connection, rows: int) -> int:
        # The last rows first: they are near the end of a SQLite file, which then only has to be cut off.
        last = select(table.position).where(table.job_id == job_id).order_by(table.position.desc()).limit(rows)
        start = connection.execute(select(func.min(last.subquery().c.position))).scalar()
        if start is None:
            return 0
        return connection.execute(delete(table).where(table.job_id == job_id, table.position >= start)).rowcount

    return write


def _by_key(table: Any, job_id: int) -> Write:
    key = tuple_(*table.__table__.primary_key)

    def write(connection: Connection, rows: int) -> int:
        some = select(*table.__table__.primary_key).where(table.job_id == job_id).limit(rows)
        return connection.execute(delete(table).where(key.in_(some))).rowcount

    return write
