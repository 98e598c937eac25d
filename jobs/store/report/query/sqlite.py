"""A user's query on SQLite: the file is opened read-only, and an authorizer allows only what reads."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from jobs.store.connection.sqlite_engine import add_exp_and_ln, read_only_uri
from jobs.store.database import Database
from jobs.store.report.query.errors import translated_query_errors
from jobs.store.report.query.fetching import RunningQuery, fetch_from
from jobs.store.report.query.limits import LARGEST_VALUE, SQLITE_MEMORY, TimeLimit
from jobs.store.report.query.parameters import parameter_names, require_values

STEPS_PER_CHECK = 10_000  # instructions of SQLite's virtual machine between two checks of the time: about a millisecond

# All that a query may do; writing, ATTACH, PRAGMA and transactions are not among it.
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Documented functions that read nothing but their arguments (sqlite.org/lang_corefunc.html and its sister pages). A
# library may be built with others, of which some open files (readfile), load code (load_extension) or return and take
# addresses of memory (fts3_tokenizer).
FUNCTIONS = frozenset(
    name
    for line in (
        "abs changes char coalesce concat concat_ws format glob hex if ifnull iif instr last_insert_rowid length like",
        "likelihood likely lower ltrim max min nullif octet_length printf quote random randomblob replace round rtrim",
        "sign soundex sqlite_source_id sqlite_version substr substring total_changes trim typeof unhex unicode unistr",
        "unistr_quote unlikely upper zeroblob",
        "avg count group_concat median percentile percentile_cont percentile_disc string_agg sum total",
        "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number",
        "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch",
        "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow",
        "power radians sin sinh sqrt tan tanh trunc",
        "-> ->> json json_array json_array_insert json_array_length json_error_position json_extract json_group_array",
        "json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set",
        "json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object",
        "jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set",
    )
    for name in line.split()
)

TABLE_FUNCTIONS = ("json_each", "json_tree")  # they read nothing but their arguments


@contextmanager
def running(database: Database, sql: str, parameters: Mapping[str, str], limit: TimeLimit) -> Iterator[RunningQuery]:
    require_values(parameter_names(sql, is_sqlite=True), parameters)
    uri = read_only_uri(Path(str(database.engine.url.database)))
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        add_exp_and_ln(connection)
        for table in TABLE_FUNCTIONS:  # SQLite creates such a table at its first use, which the authorizer would refuse
            connection.execute(f"SELECT 1 FROM {table}('[]')").close()
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.execute(f"PRAGMA hard_heap_limit = {SQLITE_MEMORY}").close()
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(limit.is_over, STEPS_PER_CHECK)
        with translated_query_errors(limit, sql), limit:
            answer = connection.execute(sql, {name: _number_or_text(value) for name, value in parameters.items()})
        columns = [column[0] for column in answer.description or ()]
        yield RunningQuery(columns, partial(fetch_from, answer))


def _authorize(action: int, first: str | None, second: str | None, _schema: str | None, _trigger: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY


def _number_or_text(value: str) -> int | float | str:
    """The value of a parameter. SQLite compares 5 and '5' as unequal where no column decides the type, so what reads as
    a number is one; a text like 007 stays a text."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value):
        return int(value)
    return float(value) if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", value) else value
