"""The version of a database's schema, and the migrations from one version to another."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from jobs.errors import StoreError
from jobs.store.connection.sqlite_engine import READ_ONLY
from jobs.store.schema.views import create_views, drop_views

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.schema import SchemaItem

# The newest migration. Repeated here so that a usual start need not load alembic (80 ms); a test compares the two.
HEAD = "0035"
VERSION_TABLE = "alembic_version"
UNREFERENCED = (
    *("documents", "translations", "scores", "rankings", "generations", "passes", "steps", "shard_events", "batches"),
    *("provider_changes", "deltas"),
)
ONLY_ON_SQLITE = {f"fk_{table}_job_id_jobs" for table in UNREFERENCED}
# As alembic makes it. Of two that make a table at the same time the second waits, and fails if the first commits.
MAKE_VERSION_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} "
    f"(version_num VARCHAR(32) NOT NULL, CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)


def bring_up_to_date(engine: Engine) -> None:
    """Upgrade a SQLite file. Raises StoreError for a newer schema, and where `kvjobs db upgrade` has to be run."""
    version = schema_version(engine)
    if version == HEAD:
        return
    _refuse_newer(version)
    if engine.dialect.name != "sqlite":
        raise StoreError("the database's tables are not up to date; run: kvjobs db upgrade")
    if engine.get_execution_options().get(READ_ONLY):
        raise StoreError(
            f"the tables of {engine.url.database} are of an older version ({version or 'none'}; this kvjobs has "
            f"{HEAD}), and the file may only be read: run kvjobs db upgrade as a user who may write it"
        )
    upgrade(engine)


def schema_version(engine: Engine) -> str | None:
    """The newest migration that was run on the database; None where it has no tables of kvjobs."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return None
        return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run every missing migration, all in one transaction; of two upgrades at once the second waits. (Tests stop at an
    older `revision`, without views.)"""
    from alembic import command

    with _migrating(engine) as connection:
        drop_views(connection)  # a table that a view reads cannot be altered
        command.upgrade(_config(connection), revision)
        if revision == "head":
            create_views(connection)


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Drop every table of kvjobs. (Tests stop at an older `revision`, without views.)"""
    from alembic import command

    with _migrating(engine) as connection:
        drop_views(connection)
        command.downgrade(_config(connection), revision)


def differences(engine: Engine) -> list[str]:
    """Where the database's tables differ from `jobs.store.schema.tables`, one line each; empty where nowhere."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from jobs.store.schema.tables import Base

    with engine.connect() as connection, warnings.catch_warnings():
        # SQLAlchemy does not read an index of expressions from SQLite, and says so; alembic, too.
        warnings.filterwarnings("ignore", ".*expression-based index")
        opts = {"compare_type": True, "include_object": is_compared}
        context = MigrationContext.configure(connection, opts=opts)
        found = [str(difference) for difference in compare_metadata(context, Base.metadata)]
        return [*found, *_missing_indexes_of_expressions(connection)]


def _missing_indexes_of_expressions(connection: Connection) -> list[str]:
    """On SQLite, by their names alone; on PostgreSQL alembic compares them."""
    if connection.dialect.name != "sqlite":
        return []
    from jobs.store.schema.tables import Base

    there = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'index'")).scalars())
    indexes = (index for table in Base.metadata.tables.values() for index in table.indexes)
    by_expression = (index for index in indexes if len(index.columns) < len(index.expressions))
    return [f"the index {index.name} is missing" for index in by_expression if index.name not in there]


def is_compared(item: "SchemaItem", name: str | None, kind: str, _reflected: bool, _other: object) -> bool:
    """All but the foreign keys that only SQLite has (migration 0002 says why)."""
    return not (kind == "foreign_key_constraint" and name in ONLY_ON_SQLITE)


@contextmanager
def _migrating(engine: Engine) -> Iterator[Connection]:
    """One transaction for all migrations. SQLite changes a table by creating a new one, and dropping the old one would
    delete the rows that refer to it; so foreign keys are off meanwhile, and checked at the end. (They can only be
    switched outside a transaction.)"""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect().execution_options(kvjobs_writing=True) as connection:
        if is_sqlite:
            _set_foreign_keys(connection, "OFF")
        try:
            with connection.begin():
                if not is_sqlite:
                    _wait_for_others(connection)
                yield connection
                if is_sqlite and (dangling := connection.execute(text("PRAGMA foreign_key_check")).all()):
                    raise StoreError(
                        f"after the upgrade {len(dangling)} rows would refer to rows that do not exist; it was undone"
                    )
        finally:
            if is_sqlite:
                _set_foreign_keys(connection, "ON")


def _wait_for_others(connection: Connection) -> None:
    """Wait until no other transaction migrates. Each locks the table of the version, which can still be read; a role
    that may only read cannot take this lock."""
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(text(MAKE_VERSION_TABLE))
    connection.execute(text(f"LOCK TABLE {VERSION_TABLE} IN SHARE ROW EXCLUSIVE MODE"))


def _set_foreign_keys(connection: Connection, on_or_off: str) -> None:
    """Switch SQLite's foreign keys through the driver: SQLAlchemy would begin a transaction."""
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute(f"PRAGMA foreign_keys = {on_or_off}")


def _refuse_newer(version: str | None) -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory(str(_scripts())).walk_revisions()}
    if version is not None and version not in known:
        raise StoreError(
            f"the database was made by a newer kvjobs (schema {version}; this one knows {HEAD}): upgrade kvjobs"
        )


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_scripts()))
    config.attributes["connection"] = connection
    return config


def _scripts() -> Path:
    """The folder of migrations: beside this file in an installed wheel, at the top of a checkout."""
    beside = Path(__file__).with_name("migrations")
    return beside if beside.is_dir() else Path(__file__).parents[3] / "migrations"
