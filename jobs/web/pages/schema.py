"""/schema: every view and its columns, from the source of docs/schema.md; the tables below."""

from typing import Any

from fastapi import APIRouter

from jobs.store.schema.migrate import HEAD
from jobs.store.schema.reference import table_descriptions, table_meanings
from jobs.store.schema.views import VIEW_COLUMNS, View
from jobs.web.rendering import add_page

# The statement that the page offers for a view; any other view is offered with its first rows.
NEWEST_FIRST = {"v_jobs": "job_id", "v_workers": "worker_id", "v_batches": "batch_id"}

router = APIRouter()


def schema() -> dict[str, Any]:
    meanings = table_meanings()
    tables = {name: View(meanings[name], columns) for name, columns in table_descriptions().items()}
    return {
        "schema_version": HEAD,
        "views": VIEW_COLUMNS,
        "tables": tables,
        "queries": {name: first_query(name) for name in (*VIEW_COLUMNS, *tables)},
    }


def first_query(name: str) -> str:
    """A query of this view for the reader to begin with."""
    order = f" order by {NEWEST_FIRST[name]} desc" if name in NEWEST_FIRST else ""
    return f"select * from {name}{order} limit 20"


add_page(router, "/schema", "schema.html", schema)
