"""`kvjobs db`: maintenance of the database."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import messages_of_log, print_message
from jobs.cli.render.output import Output, output_options
from jobs.cli.render.reading_progress import status_line
from jobs.errors import SpecError
from jobs.number_ranges import Real
from jobs.text.formatting import counted, size, visible

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.disk_space.free_pages import FileSpace
    from jobs.store.report.job_summary import JobSummary


@click.group()
def db() -> None:
    """Maintain the database."""


@db.command()
@click.pass_obj
def path(context: Context) -> None:
    """Print the database's file or URL, without a password."""
    with context.database_as_it_is() as database:
        url = database.engine.url
        click.echo(visible(url.database if database.is_sqlite else database.shown_url))


@db.command()
@click.pass_obj
def upgrade(context: Context) -> None:
    """Upgrade the tables to this version of kvjobs.

    Every command upgrades a SQLite file; any other database is upgraded by this command alone.
    """
    from jobs.store.schema import migrate

    say = messages_of_log(context.settings.log_format)  # of a container that runs before the workers
    with context.database_as_it_is() as database:
        before = migrate.schema_version(database.engine)
        if before == migrate.HEAD:
            say(f"The tables are up to date (schema {before}).")
            return
        migrate.upgrade(database.engine)
    say(f"The tables are up to date: schema {migrate.HEAD}, was {before or 'empty'}.")


@db.command()
@click.argument("reference", metavar="[JOB]", required=False)
@output_options()
@click.pass_obj
def check(context: Context, output: Output, reference: str | None) -> int:
    """Check the tables, and with a JOB its counters.

    The tables and views are compared with those of this version. With a JOB every document is read: each must be
    waiting or in exactly one terminal state, the job's counters must agree with its documents, and no result may have a
    lease epoch that its shard never had. Exit code 1 if anything is wrong.
    """
    from jobs.store.report.job_summary import find_job
    from jobs.store.report.recount.consistency_check import find_contradictions
    from jobs.store.schema import migrate

    with context.database_as_it_is() as database:
        found = []
        if (version := migrate.schema_version(database.engine)) != migrate.HEAD:
            found.append(f"the schema is {version or 'empty'} and should be {migrate.HEAD}: kvjobs db upgrade")
        else:
            found.extend(migrate.differences(database.engine))
        if reference is not None and not found:
            with database.reading() as connection:
                job = find_job(connection, reference)
                found.extend(
                    f"job {job.job_id}: {sentence}" for sentence in find_contradictions(connection, job.job_id)
                )
    output.record(
        {"ok": not found, "problems": found},
        lambda: click.echo("\n".join(map(visible, found)) if found else "No problem found."),
    )
    return 1 if found else 0


@db.command()
@click.argument("references", metavar="[JOB]...", nargs=-1)
@click.option(
    "--older-than",
    "days",
    type=number_type(Real(0, 36_500)),
    metavar="DAYS",
    help="Delete jobs that ended more than so many days ago.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_options()
@click.pass_obj
def prune(context: Context, references: tuple[str, ...], days: float | None, yes: bool, output: Output) -> None:
    """Delete finished jobs, their documents and results.

    Glossaries that no job has go, too. Segments and scores that later jobs may reuse are kept. Workers go on meanwhile.
    A SQLite file shrinks; one that an older version made keeps its size until `kvjobs db vacuum`, and later jobs use
    the free space. In PostgreSQL the space is used by later jobs, too.

    If interrupted, run the same command again, with the numbers of the jobs in place of their names.
    """
    from jobs.store.disk_space.free_pages import file_space
    from jobs.store.disk_space.prune import prune_jobs

    if bool(references) == (days is not None):
        raise click.UsageError("Name jobs, or give --older-than DAYS; not both.")
    with context.database() as database:
        jobs = _jobs_to_prune(database, references, days)
        documents = sum(job.documents for job in jobs)
        what = f"{counted(len(jobs), 'job')} with {counted(documents, 'document')}"
        if jobs and not yes:
            _confirm(f"Delete {what} ({', '.join(job.label for job in jobs[:10])}{', ...' if jobs[10:] else ''})?")
        before = file_space(database)
        with status_line() as tell:
            deleted = _running_total(lambda rows: tell(f"deleted {counted(rows, 'row')}"))
            shortened = _running_total(lambda num_bytes: tell(f"gave {size(num_bytes)} back to the disk"))
            rows, glossaries = prune_jobs(database, [job.job_id for job in jobs], deleted, shortened)
        after = file_space(database)
    unused = [f"{counted(glossaries, 'glossary')} that no job has"] if glossaries else []
    gone = [*([what] if jobs else []), *unused]
    said = f"Deleted {' and '.join(gone)}." if gone else "No such job; nothing was deleted."
    print_message(said if before is None or after is None or not gone else f"{said} {_how_it_shrank(before, after)}")
    numbers = {"jobs": [job.job_id for job in jobs], "documents": documents, "rows": rows, "glossaries": glossaries}
    output.record(numbers | _file_numbers(before, after), lambda: None)


@db.command()
@click.option("--force", is_flag=True, help="Write an older version's file anew even while workers are running.")
@output_options()
@click.pass_obj
def vacuum(context: Context, force: bool, output: Output) -> None:
    """Give the free space of a SQLite file back to the disk.

    `kvjobs db prune` does this by itself, and workers go on meanwhile. Only a file that an older version of kvjobs made
    must be written anew as a whole, once: that takes free disk space of twice the size of what is left in it, whoever
    writes waits until it is done, and it is refused while workers are running.
    """
    from jobs.store.disk_space.free_pages import (
        check_rewrite,
        empty_log,
        file_space,
        give_back_free_pages,
        rewrite_file,
    )

    with context.database() as database:
        before = file_space(database)
        if before is None:
            raise SpecError("PostgreSQL itself makes the space of deleted rows free for later jobs (autovacuum)")
        if before.is_incremental:
            with status_line() as tell:
                shortened = _running_total(lambda num_bytes: tell(f"gave {size(num_bytes)} back to the disk"))
                give_back_free_pages(database, shortened)
            empty_log(database)
        else:
            check_rewrite(database, context.settings.lease_s, force=force)
            print_message(f"Writing {before.name} anew ({size(before.used_bytes)}); whoever writes to it waits.")
            rewrite_file(database)
        after = file_space(database)
    assert after is not None
    print_message(_how_it_shrank(before, after))
    output.record(_file_numbers(before, after), lambda: None)


@db.command("grant-reader")
@click.argument("role")
@click.option(
    "--password-file",
    "password",
    type=click.File(encoding="utf-8"),
    help="A file whose first line is the password to set for the role; - for standard input.",
)
@click.pass_obj
def grant_reader(context: Context, role: str, password: TextIO | None) -> None:
    """Give a PostgreSQL role read access, and no more.

    The role is created if it does not exist. It may read the tables and views of kvjobs, also those that later upgrades
    create: enough for ls, show, watch, export, steps, totals and query. A role that has more rights is refused. Run
    this command as the user who upgrades the tables.
    """
    from jobs.store.schema import database_roles

    with context.database() as database:
        if database.is_sqlite:
            raise SpecError(
                "a SQLite database has no roles; give its readers access to the file and its folder with chmod"
            )
        first_line = password.readline().rstrip("\n") if password is not None else None
        with database.writing() as connection:
            is_new = database_roles.grant_reader(connection, role, first_line)
        url = database.engine.url.set(username=role, password=None).render_as_string()
    print_message(
        f"The role {role} {'was created and can' if is_new else 'can'} read the database: KVJOBS_DATABASE={url}"
    )
    if is_new and first_line is None:
        print_message(f"It has no password yet. To set one, in psql: \\password {role}")


def _jobs_to_prune(database: "Database", references: tuple[str, ...], days: float | None) -> "list[JobSummary]":
    from jobs.store.disk_space.prune import ended_before
    from jobs.store.report.job_summary import find_job, require_ended

    with database.reading() as connection:
        numbers = references if days is None else [str(job_id) for job_id in ended_before(connection, days)]
        found = {job.job_id: job for job in (find_job(connection, number) for number in numbers)}
    require_ended(list(found.values()))
    return list(found.values())


def _how_it_shrank(before: "FileSpace", after: "FileSpace") -> str:
    """How the size of the file changed, in a sentence or two; the sizes include the log of changes (-wal)."""
    if not after.is_incremental:
        return (
            f"{after.name} keeps its size, {size(after.num_bytes)}: {size(after.free_bytes)} of it are free, and later "
            "jobs use them; kvjobs db vacuum gives them back to the disk."
        )
    if not after.is_settled:
        return (
            f"{after.name} takes {size(after.num_bytes)} now, and {size(after.settled_bytes)} when those who are "
            "reading it have ended."
        )
    if after.num_bytes < before.num_bytes:
        return f"{after.name} shrank by {size(before.num_bytes - after.num_bytes)} to {size(after.num_bytes)}."
    return f"{after.name} takes {size(after.num_bytes)}."


def _running_total(show: Callable[[int], None]) -> Callable[[int], None]:
    """A function that adds up the numbers that it is called with, and shows the sum so far."""
    total = 0

    def add(amount: int) -> None:
        nonlocal total
        total += amount
        show(total)

    return add


def _file_numbers(before: "FileSpace | None", after: "FileSpace | None") -> dict[str, int | None]:
    """The size of the SQLite file in JSON, before and after; null for PostgreSQL."""
    return {
        "bytes_before": before.num_bytes if before else None,
        "bytes_after": after.num_bytes if after else None,
        "bytes_free": after.free_bytes if after else None,
    }


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise SpecError(
            "standard input is not a terminal, so nobody can confirm; to delete without confirmation give --yes"
        )
    click.confirm(visible(question), abort=True, err=True)
