"""`kvjobs query`: read-only SQL."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.errors import SpecError
from jobs.number_ranges import SECONDS, Whole
from jobs.text.formatting import NOTHING

TABLE_LIMIT = 1000
NAMES = ("name", "model", "source", "host", "node", "queue", "queues", "flags", "error_code")


@click.command()
@click.argument("sql", required=False)
@click.option("--saved", metavar="NAME", help="Run a question that comes with kvjobs, instead of SQL.")
@click.option("--list", "as_list", is_flag=True, help="List these questions, with their parameters.")
@click.option("-p", "parameters", type=(str, str), multiple=True, metavar="NAME VALUE", help="The value of :NAME.")
@click.option(
    "--limit",
    metavar="N",
    type=number_type(Whole(1)),
    help=f"Print at most so many rows.  [default: {TABLE_LIMIT} in a table, else all]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=number_type(SECONDS),
    default=30,
    show_default=True,
    help="Stop a query that takes longer.",
)
@click.option(
    "--as-superuser", is_flag=True, help="PostgreSQL: run the query even as a user who may do more than read tables."
)
@output_options(csv=True)
@click.pass_obj
def query(
    context: Context,
    output: Output,
    sql: str | None,
    saved: str | None,
    as_list: bool,
    parameters: tuple[tuple[str, str], ...],
    limit: int | None,
    timeout: float,
    as_superuser: bool,
) -> None:
    """Query the database in SQL, read-only.

    The views v_jobs, v_documents, v_shards, v_batches, v_steps, v_phases, v_decoder_steps, v_past_lengths,
    v_throughput, v_failures, v_flags, v_measures, v_shard_events and v_workers keep their columns in later versions;
    the tables may change. If SQL is "-", the query is read from standard input.

    A query is rolled back at its end. On PostgreSQL, however, it can call any function that the user may call, so a
    superuser is refused; kvjobs db grant-reader creates a role that can only read.

    --saved runs one of the questions that kvjobs brings, such as where the seconds of a job went; -p changes its
    parameters. --list shows them; with --json also their SQL, to begin one of your own with.

    \b
    kvjobs query --saved slowest-batches -p job 3 -p rows 5
    kvjobs query "select status, count(*) from v_documents where job_id = :job group by 1" -p job 3
    """
    from jobs.store.report.query.query import run_query
    from jobs.store.report.query.saved_queries import saved_query

    if sum((sql is not None, saved is not None, as_list)) != 1:
        raise click.UsageError("Give one of: a query in SQL, --saved NAME, --list.")
    if as_list:
        _print_list(output)
        return
    limit = limit or (TABLE_LIMIT if output.is_table else None)
    with context.database() as database:
        values = dict(parameters)
        if saved is not None:
            question = saved_query(saved)
            sql = question.sql_for(database.engine.dialect.name)
            with database.reading() as connection:
                values = question.values(connection, values)
        elif sql == "-":
            sql = sys.stdin.read()
        assert sql is not None
        with run_query(database, sql, values, timeout, as_superuser=as_superuser) as answer:
            fields = answer.columns
            rows = _CountedRows(fields, islice(answer.rows, limit), is_table=output.is_table)
            output.rows(rows, [Column(field, field, is_text=_may_be_text(field)) for field in fields], fields)
            if rows.count == limit and next(answer.rows, None) is not None:
                print_message(f"Only the first {limit} rows are shown; --limit N shows more.")


def _print_list(output: Output) -> None:
    from jobs.store.report.query.saved_queries import saved_queries

    rows = [
        {
            "name": question.name,
            "about": question.about,
            "title": question.title,
            "parameters": dict(question.parameters),
            "sentence": question.sentence,
            "sql": question.sql,
        }
        for question in saved_queries().values()
    ]
    columns = (
        Column("name", "NAME"),
        Column("parameters", "PARAMETERS", _assigned, rank=1),
        Column("sentence", "ANSWERS", is_text=True),
    )
    output.rows(rows, columns, ("name", "about", "title", "parameters", "sentence", "sql"))


def _assigned(parameters: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items()) or NOTHING


class _CountedRows:
    """Rows as dicts by column name; `count` is the number of rows read so far. Raises SpecError where they are too
    large for a table."""

    def __init__(self, fields: Sequence[str], rows: Iterator[Sequence[Any]], *, is_table: bool) -> None:
        self.fields = fields
        self.rows = rows
        self.is_table = is_table
        self.count = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from jobs.store.report.query.limits import LARGEST_TABLE, TABLE_TOO_LARGE, row_bytes

        num_bytes = 0
        for row in self.rows:
            self.count += 1
            num_bytes += row_bytes(row)
            if self.is_table and num_bytes > LARGEST_TABLE:
                raise SpecError(TABLE_TOO_LARGE)
            yield dict(zip(self.fields, row, strict=True))


def _may_be_text(field: str) -> bool | None:
    """False for columns of the views that hold ids or names; None otherwise: the cells decide."""
    return False if field in NAMES or field.endswith("id") else None
