"""Which functions a user's query calls on PostgreSQL, and which of them it may call.

The server itself says which: with `debug_print_parse` it sends the tree that it parsed, in which each function,
operator and aggregate is a number. So quoted names, casts, operators, schemas and comments hide nothing. (It also
writes the tree into its own log.)

What may be called is a list of what is allowed: functions of pg_catalog that PostgreSQL declares free of side effects
(immutable or stable), without those that run SQL from a text or a table's name or take a transaction's number, and few
others. Not allowed are locks, sequences, settings, large objects, files, sleep, other sessions, and what the users of
the database made.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobs.errors import SpecError, StoreError

if TYPE_CHECKING:
    import psycopg

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
    statement is parsed and not run."""
    import psycopg

    trees: list[str] = []

    def note(diagnostic: "psycopg.errors.Diagnostic") -> None:
        trees.append(diagnostic.message_detail or "")

    sql = psycopg.ClientCursor(connection).mogrify(statement, parameters)
    connection.execute("SET LOCAL client_min_messages = log")
    connection.execute("SET LOCAL debug_print_parse = on")
    connection.add_notice_handler(note)
    try:
        # Prepared as a message of the protocol too, which takes one statement.
        connection.execute(f"PREPARE kvjobs_checked AS {EXPLAIN.sub('', sql, count=1)}".encode(), prepare=True)
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
