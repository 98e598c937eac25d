"""Rows of a parquet corpus as they were submitted, with values of the results as further columns.

If the files are still there, byte for byte, their rows are copied: every column with its type. If not, they are written
from the database, in the types that hold every value there.

Knows: rows and columns. Does not know: which documents are chosen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.corpus.original import CorpusLayout, StoredLine, stored_values
from jobs.corpus.parquet.rows import CopiedRows
from jobs.errors import SpecError
from jobs.export.parquet.columns import CellType, TypedColumn, fit, infer, schema
from jobs.export.parquet.results import column_kind
from jobs.export.parquet.table_bytes import TableBytes
from jobs.export.result_columns import Shape
from jobs.tasks.kind import PayloadKind

# Descriptions of the columns by other programs, which would be wrong with further ones.
DESCRIPTIONS = (b"huggingface", b"pandas")


def added_columns(shape: Shape, additions: Iterable[tuple[str, str]]) -> list[TypedColumn]:
    """A column for each value of the result: its key, and the name of the column."""
    return [
        TypedColumn(
            name, CellType.JSON if key == shape.main == "score" else column_kind(key)
        )  # all measures of a score
        for key, name in additions
    ]


class CopiedTable:
    """Copies rows of the corpus."""

    def __init__(self, rows: CopiedRows, added: Sequence[TypedColumn]) -> None:
        import pyarrow as pa

        self._rows = rows
        self._added = added
        self._more = schema(added)
        if taken := next((column.name for column in added if column.name in rows.schema.names), None):
            raise SpecError(f"the corpus has a column {taken!r} already; choose another name: --add KEY=OTHER")
        kept = {key: value for key, value in (rows.schema.metadata or {}).items() if key not in DESCRIPTIONS}
        whole = pa.schema([*rows.schema, *self._more], metadata=kept)
        self._table = TableBytes(whole if added else rows.schema)
        self._schema = whole if added else rows.schema
        self._batch: Any = None
        self._indices: list[int] = []
        self._values: list[Sequence[Any]] = []

    def line(self, document: StoredLine, values: Sequence[Any]) -> bytes:
        """Add the row of a document; the bytes that are ready now."""
        index, batch = self._rows.batch_of(document.line)
        ready = b"" if batch is self._batch else self._close_batch()
        self._batch = batch
        self._indices.append(index)
        self._values.append([_cell(column, value) for column, value in zip(self._added, values, strict=True)])
        return ready

    def tail(self) -> bytes:
        """The end of the file."""
        return self._close_batch() + self._table.end()

    def _close_batch(self) -> bytes:
        import pyarrow as pa

        if not self._indices:
            return b""
        chosen = self._batch.take(pa.array(self._indices))
        columns = zip(*self._values, strict=True) if self._added else ()
        more = [pa.array(list(cells), field.type) for cells, field in zip(columns, self._more, strict=True)]
        self._indices, self._values = [], []
        return self._table.add_batch(pa.RecordBatch.from_arrays([*chosen.columns, *more], schema=self._schema))


class RewrittenTable:
    """Writes rows from what the job stores."""

    def __init__(
        self,
        layout: CorpusLayout,
        fields: Iterable[Mapping[str, Any]],
        added: Sequence[TypedColumn],
        *,
        has_ids: bool,
        has_integer_ids: bool,
    ) -> None:
        """`fields`: of every document the fields of the corpus that are neither its id nor its payload."""
        self._layout = layout
        self._added = added
        payload = CellType.TEXT if layout.payload_kind is not PayloadKind.CANDIDATES else CellType.JSON
        texts = {"query": CellType.TEXT, "messages": CellType.JSON}  # whatever the others are
        kinds = {field: texts.get(role, payload) for role, field in layout.fields.items()}
        ids = {layout.id_field: CellType.INT if has_integer_ids else CellType.TEXT} if has_ids else {}
        others = {column.name: column.kind for column in infer(fields)}
        own = {name: kind for name, kind in (ids | kinds).items() if name.partition(".")[0] not in others}
        self._columns = [
            TypedColumn(name, kind) for name, kind in (own | others).items()
        ]  # a path has its object's column
        self._table = TableBytes(schema([*self._columns, *added]))

    def line(self, document: StoredLine, values: Sequence[Any]) -> bytes:
        """Add the row of a document; the bytes that are ready now."""
        stored = stored_values(self._layout, document)
        if self._layout.id_field in stored:
            number = int(document.external_id or 0) if document.numeric_id else document.external_id
            is_number = any(
                column.name == self._layout.id_field and column.kind is CellType.INT for column in self._columns
            )
            stored[self._layout.id_field] = number if is_number else document.external_id
        row = [fit(column.kind, stored.get(column.name)) for column in self._columns]
        return self._table.add(row + [_cell(column, value) for column, value in zip(self._added, values, strict=True)])

    def tail(self) -> bytes:
        """The end of the file."""
        return self._table.end()


def _cell(column: TypedColumn, value: Any) -> Any:
    """A value of a result as its column holds it."""
    if column.kind is CellType.JSON:
        return fit(CellType.JSON, value)
    return None if column.kind is CellType.TEXTS and not isinstance(value, list) else value
