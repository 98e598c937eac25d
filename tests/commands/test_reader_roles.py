"""Roles of PostgreSQL that `kvjobs query` reads with, and `kvjobs db grant-reader`, which makes one."""

from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from jobs.store.database import Database
from jobs.store.schema.views import create_views, drop_views
from tests.command_line import Kvjobs
from tests.databases import ON_POSTGRESQL, SERVER, as_superuser
from tests.messages import line_with


@ON_POSTGRESQL
def test_a_role_with_more_rights_than_reading_tables_is_refused(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.engine.url
    with as_superuser() as server:
        server.execute(text(f"GRANT pg_read_server_files TO {url.username}"))
        member = kvjobs("query", "select 1")
        server.execute(text(f"REVOKE pg_read_server_files FROM {url.username}"))
    superuser = make_url(SERVER).set(database=url.database).render_as_string(hide_password=False)
    monkeypatch.setenv("KVJOBS_DATABASE", superuser)
    refused = kvjobs("query", "select pg_read_file('PG_VERSION')")

    assert (member.exit_code, refused.exit_code, refused.out) == (2, 2, "")
    assert line_with(member.err, f"'{url.username}'", "'pg_read_server_files'")
    assert "is a superuser" in refused.err
    assert "db grant-reader" in refused.err
    assert kvjobs("query", "select 1 as one", "--as-superuser", "--json").json == [{"one": 1}]


@ON_POSTGRESQL
def test_a_reader_role_can_read_and_nothing_else(
    kvjobs: Kvjobs, database: Database, finished_job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, reader = database.engine.url, 'kvjobs "test" %s reader'
    (tmp_path / "password").write_text("se:cr'et\nsecond line\n")
    with as_superuser() as server:
        server.execute(text(f"ALTER ROLE {url.username} CREATEROLE"))
    try:
        made = kvjobs("db", "grant-reader", reader, "--password-file", tmp_path / "password")
        again = kvjobs("db", "grant-reader", reader)
        with database.writing() as connection:  # an upgrade recreates the views
            drop_views(connection)
            create_views(connection)
        reading = url.set(username=reader, password="se:cr'et").render_as_string(hide_password=False)
        monkeypatch.setenv("KVJOBS_DATABASE", reading)

        assert (made.exit_code, again.exit_code) == (0, 0), made.err + again.err
        assert line_with(made.err, "reader", "created")
        assert "cr'et" not in made.err
        for command in ("show", "export", "steps", "watch"):
            assert kvjobs(command, finished_job).exit_code == 0, command
        assert kvjobs("ls", "--json").json[0]["job_id"] == finished_job
        assert kvjobs("query", "select count(*) as n from v_documents", "--json").json == [{"n": 3}]
        refused = kvjobs("db", "prune", finished_job, "--yes")
        assert (refused.exit_code, refused.err.count("\n")) == (1, 1), refused.err
        assert "permission denied" in refused.err
    finally:
        with as_superuser(url.database) as server:
            server.execute(text(f"ALTER ROLE {url.username} NOCREATEROLE"))
            for statement in ("DROP OWNED BY", "DROP ROLE"):
                server.exec_driver_sql(f"""{statement} "{reader.replace('"', '""').replace("%", "%%")}" """)


@ON_POSTGRESQL
def test_a_role_with_more_rights_cannot_become_a_reader_role(kvjobs: Kvjobs, database: Database) -> None:
    for role, why in (("postgres", "is a superuser"), (database.engine.url.username, "owns the tables")):
        refused = kvjobs("db", "grant-reader", role)
        assert (refused.exit_code, refused.err.count("\n")) == (2, 1)
        assert why in refused.err
    not_allowed = kvjobs("db", "grant-reader", "kvjobs_nobody")
    assert (not_allowed.exit_code, not_allowed.err.count("\n")) == (1, 1)
    assert line_with(not_allowed.err, "permission denied", "role")


def test_grant_reader_is_refused_for_sqlite(kvjobs: Kvjobs, database: Database) -> None:
    refused = kvjobs("db", "grant-reader", "reader")

    assert (refused.exit_code, "chmod" in refused.err) == (2, True)
