"""`kvjobs query`: read-only SQL."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options

TABLE_LIMIT = 1000
NAMES = ("name", "model", "source", "host", "node", "queue", "queues", "flags", "error_code")


@click.command()
@click.argument("sql")
@click.option("-p", "parameters", type=(str, str), multiple=True, metavar="NAME VALUE", help="The value of :NAME.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"Print at most so many rows.  [default: {TABLE_LIMIT} in a table, else all]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
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
    sql: str,
    parameters: tuple[tuple[str, str], ...],
    limit: int | None,
    timeout: float,
    as_superuser: bool,
) -> None:
    """Query the database in SQL, read-only.

    The views v_jobs, v_documents, v_shards, v_batches, v_steps, v_phases, v_decoder_steps, v_past_lengths,
    v_throughput, v_failures, v_measures, v_shard_events and v_workers keep their columns in later versions; the tables
    may change. If SQL is "-", the query is read from standard input.

    A query is rolled back at its end. On PostgreSQL, however, it can call any function that the user may call, so a
    superuser is refused; kvjobs db grant-reader creates a role that can only read.

    \b
    kvjobs query "select status, count(*) from v_documents where job_id = :job group by 1" -p job 3
    """
    from jobs.store.report.query import run_query

    if sql == "-":
        sql = sys.stdin.read()
    limit = limit or (TABLE_LIMIT if output.is_table else None)
    with (
        context.database() as database,
        run_query(database, sql, dict(parameters), timeout, as_superuser=as_superuser) as answer,
    ):
        fields = _distinct(answer.columns)
        rows = _CountedRows(fields, islice(answer.rows, limit))
        output.rows(rows, [Column(field, field, is_text=_may_be_text(field)) for field in fields], fields)
        if rows.count == limit and next(answer.rows, None) is not None:
            print_message(f"Only the first {limit} rows are shown; --limit N shows more.")


class _CountedRows:
    """Rows as dicts by column name; `count` is the number of rows read so far."""

    def __init__(self, fields: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
        self.fields = fields
        self.rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            self.count += 1
            yield dict(zip(self.fields, row, strict=True))


def _may_be_text(field: str) -> bool | None:
    """False for columns of the views that hold ids or names; None otherwise: the cells decide."""
    return False if field in NAMES or field.endswith("id") else None


def _distinct(columns: Sequence[str]) -> list[str]:
    """Unique names: in `select 1, 1` the second column becomes 1_2."""
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names
