"""Runs migrations over the connection that `jobs.store.migrate` hands over."""

from alembic import context

from jobs.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
    transactional_ddl=False,  # the caller's transaction holds all of it; SQLite's DDL is transactional too
)
context.run_migrations()
