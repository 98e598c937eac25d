"""docs/schema.md equals the schema and explains every column."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, inspect

from jobs.store.schema.reference import reference, table_descriptions
from jobs.store.schema.tables import Base
from jobs.store.schema.views import VIEW_COLUMNS, Description, create_views
from tests.places import CHECKOUT

PAGE = CHECKOUT / "docs" / "schema.md"
DESCRIPTIONS = {
    f"{name}.{column}": described
    for name, columns in [*((name, view.columns) for name, view in VIEW_COLUMNS.items()), *table_descriptions().items()]
    for column, described in columns.items()
}


@pytest.fixture(scope="module")
def schema() -> Iterator[Connection]:
    """A connection to an SQLite database in memory with all tables and views."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        Base.metadata.create_all(connection)
        create_views(connection)
        yield connection
    engine.dispose()


def test_the_page_equals_the_generated_reference() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run: python -m jobs.store.schema.reference > docs/schema.md"
    )


def test_every_view_is_described() -> None:
    assert sorted(VIEW_COLUMNS) == sorted(VIEW_COLUMNS)


@pytest.mark.parametrize("view", VIEW_COLUMNS)
def test_the_columns_of_a_view_are_described_in_the_order_of_the_view(schema: Connection, view: str) -> None:
    assert list(VIEW_COLUMNS[view].columns) == [column["name"] for column in inspect(schema).get_columns(view)]


def test_every_column_has_a_meaning() -> None:
    assert [column for column, described in DESCRIPTIONS.items() if not described.meaning] == []


def test_numbers_and_only_numbers_have_a_unit() -> None:
    def is_number(described: Description) -> bool:
        return described.type in ("integer", "float")

    assert [column for column, one in DESCRIPTIONS.items() if bool(one.unit) != is_number(one)] == []
