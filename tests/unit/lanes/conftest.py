"""The rows of a job, as the tests of the store make them."""

from tests.unit.store.conftest import database, make_job, sqlite

__all__ = ["database", "make_job", "sqlite"]
