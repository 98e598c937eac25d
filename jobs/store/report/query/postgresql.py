"""A user's query on PostgreSQL: on its own connection, in a read-only transaction that is never committed.

In a read-only transaction too, a function may do whatever its user may do: write large objects, read files of the
server, end other sessions, hold locks. So only functions that read may be called (`refuse_other_functions`), the
transaction is rolled back, and a user with such rights is refused. `kvjobs db grant-reader` creates a role that may
only read.
"""

import contextlib
import re
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.query.errors import LARGE_ROW, translated_query_errors
from jobs.store.report.query.fetching import Row, RunningQuery, fetch_from
from jobs.store.report.query.limits import LARGEST_ROW, TimeLimit
from jobs.store.report.query.parameters import POSTGRESQL_WORDS, require_values
from jobs.store.schema.database_roles import excess_privilege

if TYPE_CHECKING:
    import psycopg
from typing import TYPE_CHECKING

from jobs.errors import StoreError

if TYPE_CHECKING:
    import psycopg

CHECK_EVERY_S = 0.25
CURSOR = "kvjobs_query"
CANCEL_S = 5.0  # for one try to reach the server with a cancel; then another follows

_BEGINNING = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?P<word>select|with|values|table|explain)\b", re.IGNORECASE | re.DOTALL
)


@contextmanager
def running(
    database: Database, sql: str, parameters: Mapping[str, str], limit: TimeLimit, *, as_superuser: bool
) -> Iterator[RunningQuery]:
    statement = _statement(sql, parameters)
    with _own_connection(database) as connection:
        connection.execute("SET TRANSACTION READ ONLY")
        if not as_superuser and (
            privilege := excess_privilege(lambda sql, given: connection.execute(sql.encode(), given))
        ):
            raise SpecError(
                f"the database's user {privilege}, so a query could do more than read: connect as a role that may only "
                "read (kvjobs db grant-reader ROLE makes one); kvjobs query --as-superuser asks all the same"
            )
        # The server's own limit ends the query if this process dies. A query can lift it, and each FETCH starts it
        # anew.
        connection.execute(f"SET LOCAL statement_timeout = {min(max(1, int(limit.seconds * 1000)), 2**31 - 1)}")
        with translated_query_errors(limit, sql), limit:
            refuse_other_functions(connection, statement, parameters)
        with _cancelled_in_time(connection, limit):
            # DECLARE takes one statement, and so does a message whose answer is binary; two could leave the transaction
            # (COMMIT; DELETE ...). Nothing is prepared by the driver: behind a pooler it would do nothing.
            if _is_explained(sql):
                with closing(connection.cursor()) as plan:
                    with translated_query_errors(limit, sql), limit:
                        plan.execute(statement, parameters, binary=True)
                    yield RunningQuery(_names(plan), partial(fetch_from, iter(plan)))
            else:
                with closing(connection.cursor(name=CURSOR)) as declared:
                    with translated_query_errors(limit, sql), limit:
                        declared.execute(_refusing_large_rows(statement), parameters)
                    yield RunningQuery(_names(declared), partial(_fetch, connection))


def _names(cursor: "psycopg.Cursor[Any] | psycopg.ServerCursor[Any]") -> list[str]:
    return [column.name for column in cursor.description or ()]


def _fetch(connection: "psycopg.Connection[Any]", count: int) -> Generator[Row]:
    """The next rows, one by one: those that are not read yet wait on the server, however large they are."""
    with closing(connection.cursor()) as cursor:
        yield from cursor.stream(f"FETCH FORWARD {count:d} FROM {CURSOR}".encode())


def _refusing_large_rows(statement: bytes) -> bytes:
    """The query as one that fails at a row that is too large, before the server sends it: the driver would take memory
    for all of it. OFFSET 0 keeps PostgreSQL from computing the columns twice."""
    return b"SELECT kvjobs_row.* FROM (SELECT * FROM (\n%s\n) AS kvjobs_query OFFSET 0) AS kvjobs_row WHERE %s" % (
        statement,
        f"CASE WHEN pg_column_size(kvjobs_row) <= {LARGEST_ROW} THEN true "
        f"ELSE ('{LARGE_ROW} ' || pg_column_size(kvjobs_row))::boolean END".encode(),
    )


@contextmanager
def _own_connection(database: Database) -> "Iterator[psycopg.Connection[Any]]":
    """A connection that is closed afterwards: a query may leave settings and locks in its session."""
    with database.translated_errors():
        pooled = database.engine.raw_connection()
    connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]  # psycopg's
    pooled.detach()
    try:
        yield connection
    finally:
        connection.close()  # without COMMIT the server rolls everything back


def _statement(sql: str, parameters: Mapping[str, str]) -> bytes:
    """The query for psycopg: `%(name)s` for `:name`, except in literals, quoted names and comments. Raises SpecError
    for anything but one statement that begins like one that reads."""
    named: set[str] = set()

    def rewritten(match: re.Match[str]) -> str:
        if match["semicolon"]:
            raise SpecError("write one statement; there is text after the semicolon that ends it")
        if name := match["parameter"]:
            named.add(name)
            return f"%({name})s"
        return match[0].replace("%", "%%")

    sql = sql.strip()
    while sql.endswith(";"):
        sql = sql[:-1].rstrip()
    parts, at = [], 0
    for match in POSTGRESQL_WORDS.finditer(sql):
        parts += [sql[at : match.start()].replace("%", "%%"), rewritten(match)]
        at = match.end()
    statement = "".join([*parts, sql[at:].replace("%", "%%")])
    require_values(named, parameters)
    if not _BEGINNING.match(sql):
        raise SpecError("a query begins with SELECT, WITH, VALUES, TABLE or EXPLAIN")
    return statement.encode()


def _is_explained(sql: str) -> bool:
    """Whether it is an EXPLAIN, for which a server-side cursor cannot be declared."""
    beginning = _BEGINNING.match(sql)
    return beginning is not None and beginning["word"].lower() == "explain"


@contextmanager
def _cancelled_in_time(connection: "psycopg.Connection[Any]", limit: TimeLimit) -> Iterator[None]:
    """Cancel the query on the server when its time is over: the query may have lifted the server's own limit."""
    import psycopg

    ended = threading.Event()

    def check() -> None:
        pause_s = min(limit.left_s, CHECK_EVERY_S)
        while not ended.wait(max(pause_s, 0.0)):
            pause_s = min(limit.left_s, CHECK_EVERY_S)
            if pause_s <= 0:
                pause_s = CHECK_EVERY_S
                with contextlib.suppress(psycopg.Error):  # it ended meanwhile, or another try follows
                    connection.cancel_safe(timeout=CANCEL_S)

    thread = threading.Thread(target=check, name="kvjobs query timeout", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


CALLED = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid)\s+(\d+)")
EXPLAIN = re.compile(r"\s*explain\b\s*(\([\w\s,]*\))?\s*((analyze|analyse|verbose)\b\s*)*", re.IGNORECASE)
# Volatile, because two calls may differ; they change nothing.
VOLATILE = ["clock_timestamp", "gen_random_uuid", "pg_database_size", "pg_indexes_size", "pg_relation_size"]
VOLATILE += ["pg_table_size", "pg_total_relation_size", "random", "timeofday"]
NOT_STABLE = r"_to_xml|_to_xmlschema|_xmlschema|^txid_current$|^pg_current_xact_id$"
OTHERS = """SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.oid = ANY(%(numbers)s)
      AND NOT (p.pronamespace = 'pg_catalog'::regnamespace
               AND (p.provolatile IN ('i', 's') AND p.proname !~ %(not_stable)s OR p.proname = ANY(%(volatile)s)))
      AND NOT (p.proname = 'json_extract'
               AND p.proowner = (SELECT c.relowner FROM pg_class c WHERE c.oid = to_regclass('v_documents')))
    ORDER BY 1"""


def refuse_other_functions(
    connection: "psycopg.Connection[Any]", statement: bytes, parameters: Mapping[str, str]
) -> None:
    """Raise SpecError where the query calls a function that it may not call; psycopg's errors where it is wrong. The
    statement is parsed and not run.

    The server itself says which it calls: with `debug_print_parse` it sends the tree that it parsed, in which each
    function, operator and aggregate is a number. So quoted names, casts, operators, schemas and comments hide nothing.
    (It also writes the tree into its own log.)

    What may be called is a list of what is allowed: functions of pg_catalog that PostgreSQL declares free of side
    effects (immutable or stable), without those that run SQL from a text or a table's name or take a transaction's
    number, and few others. Not allowed are locks, sequences, settings, large objects, files, sleep, other sessions, and
    what the users of the database made.
    """
    import psycopg

    trees: list[str] = []

    def note(diagnostic: "psycopg.errors.Diagnostic") -> None:
        trees.append(diagnostic.message_detail or "")

    sql = psycopg.ClientCursor(connection).mogrify(statement, parameters)
    connection.execute("SET LOCAL client_min_messages = log")
    connection.execute("SET LOCAL debug_print_parse = on")
    connection.add_notice_handler(note)
    try:
        # With a binary answer it is a message that takes one statement.
        connection.execute(f"PREPARE kvjobs_checked AS {EXPLAIN.sub('', sql, count=1)}".encode(), binary=True)
    finally:
        connection.remove_notice_handler(note)
    connection.execute("SET LOCAL debug_print_parse = off")
    connection.execute("SET LOCAL client_min_messages = warning")
    if not any("QUERY" in tree for tree in trees):
        raise StoreError("the server does not say which functions the query calls, so it is not run")
    numbers = sorted({int(number) for tree in trees for number in CALLED.findall(tree)})
    asked = {"numbers": numbers, "not_stable": NOT_STABLE, "volatile": VOLATILE}
    if found := connection.execute(OTHERS.encode(), asked).fetchone():
        raise SpecError(
            f"a query may only call functions that read, and {found[0]} is not one of these; leave it out, or call it "
            "in psql"
        )
