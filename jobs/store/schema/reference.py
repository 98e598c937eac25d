"""The schema on one page: `python -m jobs.store.schema.reference > docs/schema.md`. A test keeps the page true."""

import sys
import textwrap
from collections.abc import Iterator, Mapping

from jobs.store.schema.migrate import HEAD as VERSION
from jobs.store.schema.tables import Base
from jobs.store.schema.views import VIEW_COLUMNS, Description, describe

MODULES = (
    *("lasting_tables", "token_table", "upload_tables", "provider_tables", "result_tables", "verification_table"),
    *("tables", "webhook_table", "file_table", "glossary_table", "step_table", "rollup_tables", "delta_table"),
)
WIDTH = 124  # characters of a line, as in the other pages
HEAD = f"""# The database schema

Schema {VERSION}, on SQLite and on PostgreSQL. The **views** are public: their columns keep name, order and meaning from
version to version, and new ones are added at the end. The **tables** may change with every version. Both are read with
`kvjobs query` ([questions.md](questions.md)).

| type | on SQLite | on PostgreSQL |
|---|---|---|
| integer | INTEGER | bigint; a sum of integers (`v_phases`, `v_throughput`) is numeric |
| float | FLOAT | double precision |
| text | TEXT | text |
| boolean | 0 or 1 | boolean |
| time | text, UTC: `YYYY-MM-DD HH:MM:SS.mmm` | timestamp with time zone |
| bytes | BLOB | bytea |

`?` after a type: the column may be null. Units: an `id` only identifies, an `epoch` is the number of a lease of its
shard, a `position` is a place in the corpus, `nats` are natural logarithms of probabilities. The words (shard, lease,
epoch, lane, step ...) are explained in [README.md](../README.md).

<!-- made by: python -m jobs.store.schema.reference > docs/schema.md -->
"""


def reference() -> str:
    """The whole page: every view, then every table."""
    return "\n".join([HEAD, "## Views\n", *_views(), "## Tables\n", *_tables()])


def table_descriptions() -> dict[str, dict[str, Description]]:
    """The columns of each table, in the order of MODULES and of the classes in each."""
    modules = {mapper.class_.__tablename__: mapper.class_.__module__ for mapper in Base.registry.mappers}
    in_order = sorted(Base.metadata.tables.items(), key=lambda item: MODULES.index(modules[item[0]].rpartition(".")[2]))
    return {name: {column.name: describe(column) for column in table.columns} for name, table in in_order}


def table_meanings() -> dict[str, str]:
    """What a row of each table is."""
    return {
        mapper.class_.__tablename__: " ".join((mapper.class_.__doc__ or "").split()) for mapper in Base.registry.mappers
    }


def _views() -> Iterator[str]:
    for name, view in VIEW_COLUMNS.items():
        yield _section(name, view.meaning, view.columns)


def _tables() -> Iterator[str]:
    meanings = table_meanings()
    for name, columns in table_descriptions().items():
        yield _section(name, meanings[name], columns)


def _section(name: str, meaning: str, columns: Mapping[str, Description]) -> str:
    rows = "".join(_row(column, described) for column, described in columns.items())
    lines = textwrap.fill(meaning, WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"### {name}\n\n{lines}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n{rows}"


def _row(column: str, described: Description) -> str:
    null = "?" if described.is_nullable else ""
    return f"| `{column}` | {described.type}{null} | {described.unit or ''} | {described.meaning} |\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
