"""Glossaries in the database: stored with a job, read by workers, deleted with the last job that has one."""

import re
from collections.abc import Iterator

import zstandard
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from jobs.errors import NotFoundError
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.glossary_table import StoredGlossary
from jobs.store.schema.states import ENDED_STATES
from jobs.store.schema.tables import Job
from jobs.tasks.kinds import Options
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import Glossary

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def store_glossaries(connection: Connection, options: Options) -> None:
    """Store the glossaries of a job that is being made, in the same transaction. Raises NotFoundError for one that is
    given by its digest, and is not there."""
    for glossary in _glossaries(options):
        # The row is locked until the job is there, so that no prune deletes it in between.
        if glossary.content is None:
            same = update(StoredGlossary).where(StoredGlossary.digest == glossary.digest)
            if not connection.execute(same.values(stored_at=db_time())).rowcount:
                raise NotFoundError(f"no job has the glossary {glossary}; give its file")
            continue
        store_glossary(connection, glossary)


def store_glossary(connection: Connection, glossary: Glossary) -> None:
    """Store a glossary, which has its terms; where it is stored already, it counts as new."""
    assert glossary.content is not None
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(StoredGlossary)
    values = {
        "digest": glossary.digest,
        "terms": glossary.num_terms,
        "content": zstandard.ZstdCompressor(level=9).compress(glossary.content),
        "stored_at": db_time(),
    }
    newest = {"stored_at": insert.excluded.stored_at}
    connection.execute(insert.values(values).on_conflict_do_update(index_elements=["digest"], set_=newest))


def read_glossary_content(database: Database, glossary: Glossary) -> Glossary:
    """A glossary with its terms. Raises NotFoundError where it is not there."""
    with database.reading() as connection:
        packed = connection.scalar(select(StoredGlossary.content).where(StoredGlossary.digest == glossary.digest))
    if packed is None:
        raise NotFoundError(f"the glossary {glossary} is not in the database: cancel the job and submit it again")
    return Glossary(glossary.digest, zstandard.ZstdDecompressor().decompress(packed))


def count_glossaries(connection: Connection) -> int:
    """How many glossaries are stored."""
    return connection.scalar(select(func.count()).select_from(StoredGlossary)) or 0


def jobs_without_glossary(connection: Connection) -> list[int]:
    """The numbers of jobs that have not ended and whose options name a glossary that is not stored: no worker can
    process them."""
    stored = set(connection.scalars(select(StoredGlossary.digest)))
    named = select(Job.id, Job.options).where(Job.state.not_in(ENDED_STATES), Job.options.contains("sha256:"))
    found = connection.execute(named.order_by(Job.id))
    return [job_id for job_id, options in found if not set(_DIGEST.findall(options)) <= stored]


def prune_glossaries(database: Database) -> int:
    """Delete the glossaries that no job has; returns how many."""
    deleted = 0
    with database.writing() as connection:
        for digest in connection.scalars(select(StoredGlossary.digest).order_by(StoredGlossary.digest)).all():
            # First the lock: a submit that has it makes its job before the next statement looks.
            connection.execute(select(StoredGlossary.digest).where(StoredGlossary.digest == digest).with_for_update())
            is_used = select(Job.id).where(Job.options.contains(digest)).exists()
            unused = delete(StoredGlossary).where(StoredGlossary.digest == digest, ~is_used)
            deleted += connection.execute(unused).rowcount
    return deleted


def _glossaries(options: Options) -> Iterator[Glossary]:
    if isinstance(options, TranslateOptions):
        # In one order: two submits that lock the same rows do not wait for each other.
        found = (options.glossary, options.no_translate)
        yield from sorted((some for some in found if some is not None), key=lambda some: some.digest)
