"""Pages of a list whose rows are numbered in the order of arrival, and asked for by id."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from jobs.store.schema.upload_tables import OpenAIBatch, UploadedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which rows of a list are asked for."""

    owner: str | None  # None: those of all
    after: str | None = None  # the id of the row before the first one
    limit: int = 20
    newest_first: bool = True


def on_page(statement: Select[Any], table: type[UploadedFile] | type[OpenAIBatch], page: Page) -> Select[Any]:
    """The rows of a page and one more, in its order. After an id that there is not, there is none."""
    if page.owner is not None:
        statement = statement.where(table.owner == page.owner)
    if page.after is not None:
        before = select(table.number).where(table.id == page.after).scalar_subquery()
        statement = statement.where(table.number < before if page.newest_first else table.number > before)
    order = table.number.desc() if page.newest_first else table.number
    return statement.order_by(order).limit(page.limit + 1)
