"""Rows of files and batches, on both databases."""

from typing import Any

import pytest

from jobs.store.database import Database
from jobs.store.listed_rows import Page
from jobs.store.openai_batches import (
    OPEN,
    BatchStatus,
    add_batch,
    change_batch,
    find_batch,
    list_batches,
    open_batches,
)
from jobs.store.uploads import add_file, expired_files, find_file, known_ids, list_files, remove_file


def add(database: Database, name: str, owner: str = "ada", **values: Any) -> None:
    given = {"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h", **values}
    add_batch(database, id=f"batch_{name}", owner=owner, **given)


def add_one(database: Database, name: str, owner: str = "ada", **values: Any) -> None:
    given = {"filename": "f", "purpose": "batch", "num_bytes": 1, **values}
    add_file(database, id=f"file-{name}", owner=owner, **given)


def test_a_status_is_changed_by_one_of_two_processes(database: Database) -> None:
    add(database, "a")
    validating = (BatchStatus.VALIDATING,)

    first = change_batch(database, "batch_a", validating, BatchStatus.IN_PROGRESS, job_id=7)
    second = change_batch(database, "batch_a", validating, BatchStatus.FAILED)

    assert (first, second) == (True, False)
    with database.reading() as connection:
        found = find_batch(connection, "batch_a")
    assert found is not None
    assert (found.status, found.job_id, found.failed_at) == ("in_progress", 7, None)
    assert found.in_progress_at is not None


def test_batches_that_have_ended_are_not_open(database: Database) -> None:
    for name, status in zip("abcdefg", BatchStatus, strict=True):
        add(database, name, status=status.value)

    with database.reading() as connection:
        assert [batch.status for batch in open_batches(connection)] == [
            status.value for status in BatchStatus if status in OPEN
        ]


@pytest.mark.parametrize("rows", ["files", "batches"])
def test_a_list_has_pages_of_an_owner_or_of_all(database: Database, rows: str) -> None:
    prefix, new = ("file-", add_one) if rows == "files" else ("batch_", add)
    for name, owner in (("a", "ada"), ("b", "bob"), ("c", "ada"), ("d", "ada")):
        new(database, name, owner)

    def names(**page: Any) -> str:
        with database.reading() as connection:
            asked = Page(**{"owner": None, **page})
            found = list_files(connection, asked) if rows == "files" else list_batches(connection, asked)
            return "".join(row.id.removeprefix(prefix) for row in found)

    assert names() == "dcba"
    assert names(newest_first=False) == "abcd"
    assert names(owner="ada", limit=1) == "dc"  # one more than the page has
    assert names(after=f"{prefix}c") == "ba"
    assert names(after=f"{prefix}b", newest_first=False) == "cd"
    assert names(after=f"{prefix}none") == ""


def test_a_file_stays_while_a_batch_has_to_read_it(database: Database) -> None:
    add_one(database, "1")
    add(database, "a")

    assert not remove_file(database, "file-1")
    change_batch(database, "batch_a", OPEN, BatchStatus.IN_PROGRESS)
    assert remove_file(database, "file-1")
    with database.reading() as connection:
        assert find_file(connection, "file-1") is None


def test_a_file_that_is_added_twice_is_one(database: Database) -> None:
    for size in (1, 2):
        add_one(database, "1", num_bytes=size)

    with database.reading() as connection:
        found = find_file(connection, "file-1")
        assert found is not None
        assert found.num_bytes == 1
        assert known_ids(connection, ["file-1", "file-2"]) == {"file-1"}


def test_files_whose_time_is_over_are_found(database: Database) -> None:
    add_one(database, "old", expires_after_s=-1)
    add_one(database, "new", expires_after_s=3600)
    add_one(database, "lasting")

    with database.reading() as connection:
        assert expired_files(connection) == ["file-old"]
