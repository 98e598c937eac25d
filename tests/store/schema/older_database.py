"""Databases of an older version of the schema: made once in a module, and each test has a copy."""

import functools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import make_url

from jobs.store.database import Database
from tests.databases import copy_of, own_database

MadeOnce = Callable[[str], str]  # "sqlite" | "postgresql" -> the address of a database to which nobody is connected


@contextmanager
def made_of_each_kind(make: Callable[[Database], None], folder: Path) -> Iterator[MadeOnce]:
    """A function that gives the database of a kind which `make` has filled; it is called once a kind, with a database
    without tables. `folder`: for the file of SQLite."""
    with ExitStack() as stack:

        @functools.cache
        def made(kind: str) -> str:
            url = f"sqlite:///{folder / 'kvjobs.db'}" if kind == "sqlite" else stack.enter_context(own_database())
            database = Database.connect(url)
            make(database)
            database.close()
            return url

        yield made


@contextmanager
def copied(url: str, folder: Path) -> Iterator[Database]:
    """A copy of a database of `made_of_each_kind`. `folder`: for the file of SQLite."""
    with ExitStack() as stack:
        if url.startswith("sqlite"):
            url = f"sqlite:///{shutil.copy(str(make_url(url).database), folder)}"
        else:
            url = stack.enter_context(copy_of(url))
        database = Database.connect(url)
        yield database
        database.close()
