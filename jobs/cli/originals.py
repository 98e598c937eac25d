"""`kvjobs export --format original`: the lines of the corpus as they came in, those that are wanted."""

from typing import TYPE_CHECKING, BinaryIO

from jobs.choices import Only
from jobs.cli.terminal import say, visible
from jobs.corpus.original import Layout, Lines, RewrittenLines, copied_lines
from jobs.store.export import field_names, read_documents
from jobs.store.originals import Origin, find_origin
from jobs.store.tables import DocumentStatus

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.progress import JobSummary
    from jobs.store.where.condition import Condition


def write_originals(
    database: "Database",
    job: "JobSummary",
    target: BinaryIO,
    *,
    only: Only | None,
    condition: "Condition | None",
    to_terminal: bool,
) -> int:
    """Write the lines of the documents that are wanted, and never one that could not be read; how many. Raises
    SpecError for a job whose corpus has no lines."""
    with database.reading() as connection:
        origin = find_origin(connection, job.job_id)
    layout = Layout.parse(origin.reading)
    with copied_lines(layout, job.source, origin.digest, origin.first_line) as copied:
        if copied is None:
            say(f"The corpus is not in {job.source} as it was, so its lines are written anew from the database.")
        lines = copied or _rewritten(database, job, layout, origin)
        return _write(database, job, target, lines, only, condition, to_terminal, anew=copied is None)


def _write(
    database: "Database",
    job: "JobSummary",
    target: BinaryIO,
    lines: Lines,
    only: Only | None,
    condition: "Condition | None",
    to_terminal: bool,
    *,
    anew: bool,
) -> int:
    clean = _visible if to_terminal else bytes
    target.write(clean(lines.head()))
    num_written = 0
    found = read_documents(
        database, job.job_id, only=only, condition=condition, with_text=anew, with_next_line=not anew
    )
    for document in found:
        if document.status != DocumentStatus.REJECTED:
            target.write(clean(lines.line(document)))
            num_written += 1
    return num_written


def _rewritten(database: "Database", job: "JobSummary", layout: Layout, origin: Origin) -> RewrittenLines:
    return RewrittenLines(layout, field_names(database, job.job_id), has_ids=origin.has_ids)


def _visible(lines: bytes) -> bytes:
    """For a terminal, which a corpus must not steer."""
    return b"".join(
        f"{visible(line)}\n".encode() for line in lines.decode("utf-8", "replace").removesuffix("\n").split("\n")
    )
