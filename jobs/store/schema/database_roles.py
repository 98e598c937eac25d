"""Roles of PostgreSQL: which one may do more than read and write tables, and one that may only read."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from jobs.errors import SpecError
from jobs.store.schema.migrate import VERSION_TABLE
from jobs.store.schema.tables import Base
from jobs.store.schema.views import VIEW_COLUMNS

if TYPE_CHECKING:
    import psycopg

# Roles whose members may do more than use tables (postgresql.org/docs/current/predefined-roles.html).
PRIVILEGED = (
    *("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files", "pg_signal_backend"),
    *("pg_write_all_data", "pg_checkpoint", "pg_create_subscription", "pg_maintain"),
)
Execute = Callable[[str, Any], Any]  # SQL in psycopg's syntax and its parameters -> a cursor
READABLE = (*Base.metadata.tables, VERSION_TABLE, *VIEW_COLUMNS)


def excess_privilege(execute: Execute) -> str | None:
    """Why the user of a connection may do more than read and write tables, in words; None where it may not."""
    session, current = _one(execute, "SELECT session_user::text, current_user::text")
    return _privilege_of(execute, session) or _privilege_of(execute, current)


def grant_reader(connection: Connection, role: str, password: str | None) -> bool:
    """Let a role read the tables and views of kvjobs, of later versions too; a missing role is created. Whether it was.
    Raises SpecError for a role that may do more than read."""
    server = connection.exec_driver_sql
    is_new = server("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None
    if is_new:
        _run(server, "CREATE ROLE %I LOGIN", role)
    elif privilege := _privilege_of(server, role) or _ownership_of(server, role):
        raise SpecError(f"the role {privilege}, so it may do more than read; name another")
    if password is not None:
        driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg's
        hashed = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
        _run(server, "ALTER ROLE %I PASSWORD %L", role, hashed.decode())
    schema, database, owner = _one(server, "SELECT current_schema, current_database(), current_user")
    _run(server, "GRANT CONNECT ON DATABASE %I TO %I", database, role)
    _run(server, "GRANT USAGE ON SCHEMA %I TO %I", schema, role)
    for name in READABLE:
        _run(server, "GRANT SELECT ON %I.%I TO %I", schema, name, role)
    # An upgrade drops the views and creates them again.
    _run(server, "ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT SELECT ON TABLES TO %I", owner, schema, role)
    return is_new


def _privilege_of(execute: Execute, role: str) -> str | None:
    found = execute(
        """SELECT rolname, rolsuper FROM pg_roles
           WHERE (rolsuper OR rolname = ANY(%(names)s)) AND pg_has_role(%(role)s::name, oid, 'MEMBER')
           ORDER BY rolname = %(role)s DESC, rolsuper DESC, rolname LIMIT 1""",
        {"names": list(PRIVILEGED), "role": role},
    ).fetchone()
    if found is None:
        return None
    other, is_superuser = found
    if is_superuser and other == role:
        return f"{role!r} is a superuser"
    return f"{role!r} may act as {other!r}" + (", a superuser" if is_superuser else "")


def _ownership_of(execute: Execute, role: str) -> str | None:
    """The owner of a table may change and drop it, and grant rights on it."""
    (owns,) = _one(execute, "SELECT pg_has_role(%s::name, current_user, 'MEMBER')", role)
    return f"{role!r} owns the tables" if owns else None


def _run(execute: Execute, template: str, *names: str) -> None:
    """Execute a statement whose names and literals the server itself has quoted (`format`)."""
    (statement,) = _one(execute, f"SELECT format({', '.join(['%s::text'] * (1 + len(names)))})", template, *names)
    execute(statement.replace("%", "%%"), ())


def _one(execute: Execute, sql: str, *parameters: str) -> tuple[Any, ...]:
    row = execute(sql, parameters).fetchone()
    assert row is not None
    return tuple(row)
