"""Questions that many ask, as SQL over the views: for `kvjobs query --saved`, the dashboard and docs/questions.md.

They are in saved_queries.toml beside this file. A statement may hold what the two databases spell differently:
`{seconds from A to B}` (between two times), `{day of A}` (`2026-11-22`) and `{now}`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from sqlalchemy import Connection

from jobs.errors import NotFoundError, SpecError, nearest
from jobs.store.report.job_summary import LAST, find_job, list_jobs

JOB = "job"  # the parameter that takes the number or name of a job, or "last"
LOOKED_AT = 50  # newest jobs, among which "last" is the newest that was begun

_SPELLED = {
    "sqlite": {
        "seconds": r"((julianday(\g<end>) - julianday(\g<start>)) * 86400)",
        "day": r"substr(\g<time>, 1, 10)",
        "now": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    },
    "postgresql": {
        "seconds": r"cast(extract(epoch from \g<end> - \g<start>) as float)",
        "day": r"to_char(\g<time> at time zone 'UTC', 'YYYY-MM-DD')",
        "now": "clock_timestamp()",
    },
}
_PATTERNS = {
    "now": re.compile(r"\{now\}"),  # first: the others may contain it
    "seconds": re.compile(r"\{seconds from (?P<start>.+?) to (?P<end>.+?)\}"),
    "day": re.compile(r"\{day of (?P<time>.+?)\}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    name: str  # as `--saved` and the address of the page have it
    title: str
    about: str  # what it groups with: time, results, workers ...
    sentence: str  # what the answer tells
    sql: str  # with the placeholders above
    parameters: Mapping[str, str]  # name -> default
    task: str | None  # of the jobs that it is about; None: all
    chart: Mapping[str, str]  # x and y: the columns that a chart shows; empty: a table says it better

    def sql_for(self, dialect: str) -> str:
        """The statement as a database understands it: `sqlite` or `postgresql`."""
        sql = self.sql
        for word, pattern in _PATTERNS.items():
            sql = pattern.sub(_SPELLED[dialect][word], sql)
        return sql

    def values(self, connection: Connection, given: Mapping[str, str]) -> dict[str, str]:
        """The parameters with their defaults; a job becomes its number, and "last" the newest that was begun, of the
        task that the question is about. Raises SpecError for a parameter that it has not, NotFoundError where there is
        no such job.
        """
        if unknown := sorted(given.keys() - self.parameters.keys()):
            has = ", ".join(f":{name}" for name in self.parameters) or "none"
            raise SpecError(f"{self.name} has no parameter :{unknown[0]}; it has {has}")
        values = dict(self.parameters) | dict(given)
        if JOB in values:
            values[JOB] = str(self._job_id(connection, values[JOB]))
        return values

    def _job_id(self, connection: Connection, reference: str) -> int:
        if reference in ("", LAST) and (newest := list_jobs(connection, task=self.task, limit=LOOKED_AT)):
            return next((job for job in newest if job.started_at), newest[0]).job_id
        return find_job(connection, reference or LAST).job_id


@cache
def saved_queries() -> Mapping[str, SavedQuery]:
    """Every question by its name, in the order of the file."""
    text = (files("jobs.store.report.query") / "saved_queries.toml").read_text(encoding="utf-8")
    return {
        name: SavedQuery(
            name=name,
            title=entry["title"],
            about=entry["about"],
            sentence=entry["sentence"],
            sql=entry["sql"].strip(),
            task=entry.get("task"),
            parameters=entry.get("parameters", {}),
            chart=entry.get("chart", {}),
        )
        for name, entry in tomllib.loads(text).items()
    }


def saved_query(name: str) -> SavedQuery:
    """The question of this name. Raises NotFoundError."""
    try:
        return saved_queries()[name]
    except KeyError:
        near = nearest(name, saved_queries())
        meant = f"did you mean {near}?" if near else "kvjobs query --list shows all."
        raise NotFoundError(f"there is no saved query {name!r}; {meant}") from None


BEGIN, END = "<!-- made by: python -m jobs.store.report.query.saved_queries -->\n", "<!-- end -->\n"


def table() -> str:
    """The questions as docs/questions.md lists them. A test keeps the page true."""
    rows = []
    for question in saved_queries().values():
        parameters = " ".join(f"`{name}={value}`" for name, value in question.parameters.items())
        rows.append(f"| `{question.name}` | {parameters} | {question.sentence} |\n")
    return "".join((BEGIN, "\n| name | parameters | answers |\n|---|---|---|\n", *rows, END))


def with_table(page: str) -> str:
    """The page with its list brought up to date."""
    head, _, rest = page.partition(BEGIN)
    return f"{head}{table()}{rest.partition(END)[2]}"


if __name__ == "__main__":
    path = Path("docs/questions.md")
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
