"""`kvjobs db`: maintenance of the database."""

import sys
from typing import TYPE_CHECKING, TextIO

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.errors import SpecError
from jobs.formatting import counted
from jobs.visible_text import visible

if TYPE_CHECKING:
    from jobs.store.database import Database
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

    with context.database_as_it_is() as database:
        before = migrate.schema_version(database.engine)
        if before == migrate.HEAD:
            print_message(f"The tables are up to date (schema {before}).")
            return
        migrate.upgrade(database.engine)
    print_message(f"The tables are up to date: schema {migrate.HEAD}, was {before or 'empty'}.")


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
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Delete jobs that ended more than so many days ago.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def prune(context: Context, references: tuple[str, ...], days: float | None, yes: bool) -> None:
    """Delete finished jobs, their documents and results.

    Segments and scores that later jobs may reuse are kept. A SQLite file does not shrink: later jobs use the free
    space. If interrupted, run the same command again.
    """
    from jobs.store.prune import prune_job

    if bool(references) == (days is not None):
        raise click.UsageError("Name jobs, or give --older-than DAYS; not both.")
    with context.database() as database:
        jobs = _jobs_to_prune(database, references, days)
        if not jobs:
            print_message("No such job; nothing was deleted.")
            return
        documents = sum(job.documents for job in jobs)
        what = f"{counted(len(jobs), 'job')} with {counted(documents, 'document')}"
        if not yes:
            _confirm(f"Delete {what} ({', '.join(job.label for job in jobs[:10])}{', ...' if jobs[10:] else ''})?")
        for job in jobs:
            prune_job(database, job.job_id)
    print_message(f"Deleted {what}.")


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
    from jobs.store.prune import ended_before
    from jobs.store.report.job_summary import find_job, require_ended

    with database.reading() as connection:
        numbers = references if days is None else [str(job_id) for job_id in ended_before(connection, days)]
        found = {job.job_id: job for job in (find_job(connection, number) for number in numbers)}
    require_ended(list(found.values()))
    return list(found.values())


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise SpecError(
            "standard input is not a terminal, so nobody can confirm; to delete without confirmation give --yes"
        )
    click.confirm(visible(question), abort=True, err=True)
