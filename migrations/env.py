"""
Runs migrations: over the connection that `jobs.store.schema.migrate` hands over.

Called as `alembic check`: over one to the database of the settings.
"""

from alembic import context
from sqlalchemy import Connection

from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.store.schema.migrate import is_compared
from jobs.store.schema.tables import Base


def run(connection: Connection) -> None:
    """Do what the command asks for, in the transaction that the connection is in."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        include_object=is_compared,
        transactional_ddl=False,  # the caller's transaction holds all of it; SQLite's DDL is transactional too
    )
    context.run_migrations()


if "connection" in context.config.attributes:
    run(context.config.attributes["connection"])
else:
    settings, _ = read_settings({})
    with Database.connect(settings.database_url).writing() as own:
        run(own)
