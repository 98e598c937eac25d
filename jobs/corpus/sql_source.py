"""The query of another database whose rows are a corpus, and its name in messages and in the job's row.

    query of postgresql://reader@host/news: select id, body as text from articles
    query of NEWS_DB (postgresql://reader:***@host/news): select ...       the address is in the variable NEWS_DB
    query of @/run/secrets/news (postgresql://reader:***@host/news): select ...        in this file

Knows: where the address comes from, and that it may hold a password. Does not know: how it is asked.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from jobs.errors import SpecError
from jobs.settings import hide_passwords

_PREFIX = "query of "
_STORED = re.compile(rf"{_PREFIX}(?P<given>\S+)(?: \(\S*\))?: (?P<query>.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSource:
    """A query and the database that is asked."""

    given: str  # as --source has it
    url: str = field(repr=False)  # of the database, with its password
    query: str

    @classmethod
    def read(cls, given: str, query: str) -> "SqlSource":
        """Raises SpecError for a password on the command line, a variable that is not set, a file that cannot be
        read; and for an empty query."""
        if not query.strip():
            raise SpecError("--from-sql has no query; write one: 'select id, body as text from articles'")
        return cls(given=given, url=_url(given), query=query.strip())

    @property
    def name(self) -> str:
        """The database, without passwords, for messages."""
        return hide_passwords(self.url)

    @property
    def source(self) -> str:
        where = self.given if self.given == self.url else f"{self.given} ({self.name})"
        return f"{_PREFIX}{where}: {self.query}"


def is_query(source: str) -> bool:
    """Whether the source of a job names a query."""
    return _STORED.fullmatch(source) is not None


def query_words(source: str) -> list[str]:
    """The arguments of `kvjobs submit` that ask the query of a stored source again."""
    found = _STORED.fullmatch(source)
    assert found
    return ["--from-sql", found["query"], "--source", found["given"]]


def _url(given: str) -> str:
    if given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            raise SpecError(f"--source names the file {given[1:]}, which cannot be read; check its path") from None
        return _checked(text, f"the file {given[1:]}")
    if "://" in given:
        if hide_passwords(given) != given:
            raise SpecError(
                "--source has a password, which others can read in the list of processes; put the address into an "
                "environment variable and name that (--source NEWS_DB), or into a file (--source @FILE); PostgreSQL "
                "finds passwords in ~/.pgpass too"
            )
        return _checked(given, "--source")
    if not _VARIABLE.fullmatch(given):
        raise SpecError(
            "--source is the address of a database (postgresql://user@host/name, sqlite:////path/file.db), the name of "
            "an environment variable that holds it, or @FILE"
        )
    if not (text := os.environ.get(given, "").strip()):
        raise SpecError(f"--source names the environment variable {given}, which is not set; set it to the address")
    return _checked(text, f"the variable {given}")


def _checked(url: str, where: str) -> str:
    if "://" not in url or len(url.split()) != 1:  # not repeated: it may hold a password
        raise SpecError(f"{where} holds no address of a database; write it as postgresql://user@host/name")
    return url
