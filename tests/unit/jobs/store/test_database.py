"""Addresses of databases, and the newest migration."""

import pytest

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.schema.migrate import HEAD
from tests.places import CHECKOUT


def test_head_is_the_newest_migration() -> None:
    from alembic.script import ScriptDirectory

    migrations = CHECKOUT / "migrations"
    assert ScriptDirectory(str(migrations)).get_current_head() == HEAD


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="in memory"):
        Database.open(url)


def test_a_bad_address_is_refused_without_repeating_what_may_be_a_password() -> None:
    with pytest.raises(SpecError) as refused:
        Database.open("secret-without-scheme")

    assert "secret" not in str(refused.value)
