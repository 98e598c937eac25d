"""Results as a parquet table, a row a document.

    id  status  <result>  flags  [nbest | tokens]  [provider]  [--with]  <other fields>
    error_code  error  line  fields

The result is the columns of CSV (`translation`; `nll_sum` .. `bits_per_byte`); of a ranking one column, a list of
candidates, best first. Their types depend on the task alone. The id is int64 if every document has an integer for one,
else a string.

Knows: results, documents. Does not know: SQL, files.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from jobs.errors import StoreError
from jobs.export.export_formats import split_fields
from jobs.export.parquet.columns import MISFIT, CellType, TypedColumn, fit, infer, schema
from jobs.export.parquet.table_bytes import TableBytes
from jobs.export.result_columns import Extra, Shape, extra_keys, extra_values, shape_of
from jobs.store.report.documents.export import first_fields, has_integer_ids
from jobs.tasks.kind import Type
from jobs.tasks.kinds import KINDS

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.documents.export import ExportedDocument
    from jobs.store.report.job_summary import JobSummary

_OF_TYPES = {Type.TEXT: CellType.TEXT, Type.JSON: CellType.JSON, Type.INTEGER: CellType.INT, Type.FLOAT: CellType.FLOAT}
# The type of a value of a result, by its name in an export; the others are texts.
KINDS_OF_VALUES: Mapping[str, CellType] = {
    **{field.exported_name: _OF_TYPES[field.type] for task in KINDS.values() for field in task.fields},
    **{derived.name: CellType.FLOAT for task in KINDS.values() for derived in task.derived},
    **{task.main: CellType.RANKING for task in KINDS.values() if task.candidate_columns},
    **{task.main: CellType.BOOL for task in KINDS.values() if not task.fields},
    "flags": CellType.TEXTS,
}


class ParquetResults:
    """Writes the documents of a job."""

    def __init__(
        self,
        shape: Shape,
        field_columns: Sequence[TypedColumn],
        *,
        extras: Sequence[str] = (),
        optional: Sequence[str] = (),
        has_integer_ids: bool,
    ) -> None:
        """`field_columns`: the fields of the corpus; what is in none of them is JSON in the column `fields`. `extras`,
        `optional`: keys, as in `Delimited`."""
        self._shape = shape
        self._extras = extras
        self._has_integer_ids = has_integer_ids
        self._reserved = frozenset(shape.table_keys | shape.keys)
        results = [shape.main] if shape.kind.has_candidates else [*shape.columns]
        self._fields = {column.name: column.kind for column in field_columns if column.name not in self._reserved}
        self._columns = [
            TypedColumn("id", CellType.INT if has_integer_ids else CellType.TEXT),
            TypedColumn("status", CellType.TEXT),
            *(TypedColumn(name, column_kind(name)) for name in (*results, "flags", *optional, *extras)),
            *(TypedColumn(name, kind) for name, kind in self._fields.items()),
            *(TypedColumn("error_code", CellType.TEXT), TypedColumn("error", CellType.TEXT)),
            *(TypedColumn("line", CellType.INT), TypedColumn("fields", CellType.JSON)),
        ]
        self._table = TableBytes(schema(self._columns))

    def head(self) -> bytes:
        return b""

    def line(self, document: "ExportedDocument") -> bytes:
        cells, hidden = fitted_fields(document, self._reserved, self._fields)
        cells |= self._result(document) | extra_values(self._shape, self._extras, document)
        cells |= {
            "id": typed_id(document, as_integer=self._has_integer_ids),
            "status": document.status,
            "flags": document.result["flags"].split() if document.result.get("flags") else None,
            "error_code": document.error_code,
            "error": document.error,
            "line": document.line,
            "fields": hidden,
        }
        return self._table.add([cells.get(column.name) for column in self._columns])

    def tail(self) -> bytes:
        return self._table.end()

    def _result(self, document: "ExportedDocument") -> dict[str, Any]:
        if self._shape.kind.has_candidates:
            return self._shape.in_json(document.result)
        (cells,) = self._shape.in_table(document.result)
        return cells


def fitted_fields(
    document: "ExportedDocument", reserved: frozenset[str], kinds: Mapping[str, CellType]
) -> tuple[dict[str, Any], str | None]:
    """The cells of the other fields of the corpus' line, and as JSON those that have no column or do not fit theirs;
    None: there are none."""
    own, hidden = split_fields(document, reserved)
    cells: dict[str, Any] = {}
    for name, value in own.items():
        kind = kinds.get(name)
        fitting = MISFIT if kind is None else fit(kind, value)
        if fitting is MISFIT:
            hidden[name] = value
        else:
            cells[name] = fitting
    return cells, orjson.dumps({name: hidden[name] for name in sorted(hidden)}).decode() if hidden else None


def typed_id(document: "ExportedDocument", *, as_integer: bool) -> int | str | None:
    """The id as its column holds it. Raises StoreError for a text where integers were expected."""
    if not as_integer or document.external_id is None:
        return document.external_id
    if not document.numeric_id:
        raise StoreError("documents were added to the job during the export; export it again")
    return int(document.external_id)


def parquet_results(database: "Database", job: "JobSummary", extras: Sequence[Extra]) -> ParquetResults:
    """The writer of a job's documents."""
    shape = shape_of(job)
    return ParquetResults(
        shape,
        infer(first_fields(database, job.job_id)),
        extras=extra_keys(shape, extras),
        optional=shape.asked_for(json.loads(job.options)),
        has_integer_ids=has_integer_ids(database, job.job_id),
    )


def column_kind(name: str) -> CellType:
    """The kind of a column of results."""
    return KINDS_OF_VALUES.get(name, CellType.TEXT)
