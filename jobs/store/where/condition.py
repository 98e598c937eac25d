"""A condition of `--where`: over the columns of `v_documents` and the other fields of the corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, select
from sqlalchemy.exc import DBAPIError

from jobs.errors import SpecError
from jobs.store.where.compiler import compile_condition
from jobs.store.where.fields import resolve
from jobs.store.where.grammar import read_condition
from jobs.store.where.tree import Name, Node, names_in
from jobs.store.where.values import VIEW, is_column


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition; `of_job` resolves its names."""

    tree: Node
    paths: Mapping[tuple[str, ...], tuple[str, ...]]  # names with dots -> the path of the field in this job

    @classmethod
    def parse(cls, source: str) -> "Condition":
        """Parse `perplexity < 50 and lang = 'de'`. Raises SpecError for what is a condition for no job."""
        condition = cls(read_condition(source), {})
        for dialect in ("sqlite", "postgresql"):
            condition.clause(dialect)
        return condition

    def of_job(self, connection: Connection, job_id: int, among: int | None = None) -> "Condition":
        """The same condition with its names resolved among the documents of a job, or among its first ones alone.
        Raises SpecError where none of these has a field of that name, and where the database cannot execute the
        condition."""
        found = replace(self, paths={name.path: _found(connection, job_id, name, among) for name in self.fields()})
        try:
            clause = found.clause(connection.dialect.name)
            connection.execute(select(VIEW.c.position).where(VIEW.c.job_id == -1, clause))
        except (DBAPIError, RecursionError) as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip().split("\n")[0]
            raise SpecError(f"the database cannot execute --where: {reason}") from None
        return found

    def clause(self, dialect: str, view: FromClause = VIEW) -> ColumnElement[Any]:
        """The expression for WHERE, over a view that has the columns of VIEW which the condition names."""
        return compile_condition(self.tree, dialect, self.paths, view)

    def fields(self) -> list[Name]:
        """The fields of the corpus that the condition names."""
        return list(dict.fromkeys(name for name in names_in(self.tree) if not is_column(name)))


def _found(connection: Connection, job_id: int, name: Name, among: int | None) -> tuple[str, ...]:
    try:
        return resolve(connection, job_id, name.path, among)
    except SpecError as error:
        if not name.is_quoted:
            raise
        raise SpecError(f"{error}; write a text in single quotes: '{name.path[0]}'") from None
