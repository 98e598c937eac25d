"""The documents of a chain as a table, a row a document: CSV, TSV, or parquet with typed columns.

    id  status  [text]  <columns, flags, ... of each stage>  <other fields>
    error_code  error  line  stage  fields

Knows: the values of stages. Does not know: SQL, files.
"""

from collections.abc import Sequence
from typing import Any

from jobs.export.chain.chain_documents import ChainDocument
from jobs.export.chain.stage_values import OF_EVERY_STAGE, StageValues
from jobs.export.delimited_rows import DelimitedRows, id_cell
from jobs.export.export_formats import split_fields
from jobs.export.parquet.columns import CellType, TypedColumn, schema
from jobs.export.parquet.results import column_kind, fitted_fields, typed_id
from jobs.export.parquet.table_bytes import TableBytes


class _Columns:
    """The columns of the stages, and their cells."""

    def __init__(self, stages: Sequence[StageValues | None], *, has_text: bool) -> None:
        self._stages = stages
        self.has_text = has_text
        self.of_stages = [column for stage in stages if stage for column in stage.columns]  # (name, name of the value)
        keys = (stage.keys for stage in stages if stage)
        self.reserved = OF_EVERY_STAGE.union({name for name, _ in self.of_stages}, *keys)

    def names(self, fields: Sequence[str]) -> list[str]:
        """The names of all columns, in their order. `fields`: fields of the corpus that are columns."""
        return [
            *("id", "status", *(["text"] if self.has_text else []), *(name for name, _ in self.of_stages), *fields),
            *("error_code", "error", "line", "stage", "fields"),
        ]

    def cells(self, document: ChainDocument) -> dict[str, Any]:
        """The cells of all but the id and the fields of the corpus."""
        error = document.error
        cells = {
            "status": document.status,
            "text": document.first.text,
            "error_code": error and error.code,
            "error": error and error.message,
            "line": document.first.line,
            "stage": error and error.stage,
        }
        for stage, there in zip(self._stages, document.of_stages, strict=True):
            cells |= stage.in_table(there) if stage else {}
        return cells


class DelimitedRecords:
    """Writes CSV and TSV."""

    def __init__(
        self, stages: Sequence[StageValues | None], field_columns: Sequence[str], rows: DelimitedRows, *, has_text: bool
    ) -> None:
        """`field_columns`: fields of the corpus that are columns; the rest is JSON in the column `fields`."""
        self._columns = _Columns(stages, has_text=has_text)
        self._fields = [name for name in field_columns if name not in self._columns.reserved]
        self._names = self._columns.names(self._fields)
        self._rows = rows

    def head(self) -> bytes:
        return self._rows.row(self._names)

    def line(self, document: ChainDocument) -> bytes:
        own, hidden = split_fields(document.first, self._columns.reserved)
        for name in own.keys() - set(self._fields):
            hidden[name] = own.pop(name)
        cells = own | self._columns.cells(document)
        cells |= {"id": id_cell(document.first), "fields": {name: hidden[name] for name in sorted(hidden)} or None}
        return self._rows.row([cells.get(name) for name in self._names])

    def tail(self) -> bytes:
        return b""


class ParquetRecords:
    """Writes a parquet file."""

    def __init__(
        self,
        stages: Sequence[StageValues | None],
        field_columns: Sequence[TypedColumn],
        *,
        has_text: bool,
        has_integer_ids: bool,
    ) -> None:
        """`field_columns`: the fields of the corpus; what is in none of them is JSON in the column `fields`."""
        self._columns = _Columns(stages, has_text=has_text)
        self._has_integer_ids = has_integer_ids
        self._fields = {
            column.name: column.kind for column in field_columns if column.name not in self._columns.reserved
        }
        own = {"id": CellType.INT if has_integer_ids else CellType.TEXT, "fields": CellType.JSON, "line": CellType.INT}
        kinds = own | {"stage": CellType.INT} | {name: column_kind(value) for name, value in self._columns.of_stages}
        self._kinds = {
            name: self._fields.get(name) or kinds.get(name, CellType.TEXT)
            for name in self._columns.names([*self._fields])
        }
        self._table = TableBytes(schema(TypedColumn(name, kind) for name, kind in self._kinds.items()))

    def head(self) -> bytes:
        return b""

    def line(self, document: ChainDocument) -> bytes:
        cells, hidden = fitted_fields(document.first, self._columns.reserved, self._fields)
        cells |= self._columns.cells(document)
        cells |= {"id": typed_id(document.first, as_integer=self._has_integer_ids), "fields": hidden}
        return self._table.add([_typed(kind, cells.get(name)) for name, kind in self._kinds.items()])

    def tail(self) -> bytes:
        return self._table.end()


def _typed(kind: CellType, value: Any) -> Any:
    """A cell as its column holds it: flags are a list of words."""
    return (value.split() if value else None) if kind is CellType.TEXTS else value
