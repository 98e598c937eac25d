"""The types in docs/schema.md are the types of the columns in PostgreSQL."""

from sqlalchemy import text

from jobs.store.database import Database
from jobs.store.schema.reference import table_descriptions
from jobs.store.schema.views import VIEW_COLUMNS
from tests.databases import ON_POSTGRESQL

TYPES = {
    "bigint": "integer",
    "numeric": "integer",  # the type of a sum of integers
    "double precision": "float",
    "boolean": "boolean",
    "bytea": "bytes",
    "timestamp with time zone": "time",
    "text": "text",
}


@ON_POSTGRESQL
def test_every_column_has_the_documented_type(database: Database) -> None:
    views = {name: view.columns for name, view in VIEW_COLUMNS.items()}
    with database.reading() as connection:
        rows = connection.execute(
            text(
                "SELECT table_name, column_name, data_type FROM information_schema.columns "
                "WHERE table_schema = current_schema AND table_name <> 'alembic_version'"
                " AND table_name NOT LIKE 'current_%'"  # of no use to people
            )
        ).all()

    found = {(row.table_name, row.column_name): TYPES[row.data_type] for row in rows}
    documented = {
        (name, column): described.type
        for name, columns in {**views, **table_descriptions()}.items()
        for column, described in columns.items()
    }
    assert found == documented
