"""What each stage of a chain adds to a record: keys of JSON, columns of a table.

A name that an earlier stage has too gets the number of its stage: `score`, then `score_3`; `perplexity`, then
`perplexity_3`. A filter adds nothing.

Knows: results. Does not know: formats.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.export.result_columns import Extra, Shape, extra_keys, shape_of
from jobs.store.report.documents.export import ExportedDocument
from jobs.store.report.job_summary import JobSummary

OF_EVERY_STAGE = frozenset({"id", "status", "text", "error", "error_code", "line", "stage", "fields"})


@dataclass(frozen=True, slots=True)
class StageValues:
    """The names of one stage, and their values for a document."""

    shape: Shape
    extras: tuple[str, ...]  # further keys: those that every record has, and those that --with adds
    optional: tuple[str, ...]  # columns that the options of the job ask for
    renamed: Mapping[str, str]  # names that an earlier stage has too

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns of a table: (name of the column, name of its value)."""
        of_result = (self.shape.main,) if self.shape.kind.has_candidates else self.shape.columns  # a list is one cell
        values = (*of_result, "flags", *self.optional, *self.extras)
        return [(self._name(value), value) for value in values]

    @property
    def keys(self) -> set[str]:
        """Every key that the stage may add to a JSON record."""
        return {self._name(key) for key in self.shape.keys - OF_EVERY_STAGE}

    def in_json(self, document: ExportedDocument | None) -> dict[str, Any]:
        """The keys that the stage adds to the JSON record of a document."""
        result = document.result if document else {}
        values = self.shape.in_json(result) | {key: self.shape.stored(key, result) for key in self.extras}
        return {self._name(key): value for key, value in values.items()}

    def in_table(self, document: ExportedDocument | None) -> dict[str, Any]:
        """Its cells in the row of a document, flags as a text of several words."""
        result = document.result if document else {}
        (cells,) = (self.shape.in_json(result),) if self.shape.kind.has_candidates else self.shape.in_table(result)
        cells |= {key: self.shape.stored(key, result) for key in ("flags", *self.extras)}
        return {name: cells.get(value) for name, value in self.columns}

    def _name(self, value: str) -> str:
        return self.renamed.get(value, value)


def stage_values(jobs: Sequence[JobSummary], extras: Sequence[Extra]) -> list[StageValues | None]:
    """The values of each stage; None for a filter, which adds none. Raises SpecError for an extra that no stage has."""
    taken: set[str] = set()
    found: list[StageValues | None] = []
    for number, job in enumerate(jobs, start=1):
        if not job.kind.has_model:
            found.append(None)
            continue
        shape = shape_of(job)
        own = shape.table_keys - OF_EVERY_STAGE
        found.append(
            StageValues(
                shape,
                tuple(
                    extra_keys(shape, [extra for extra in extras if extra in shape.added and extra is not Extra.TEXT])
                ),
                tuple(shape.asked_for(json.loads(job.options))),
                {name: f"{name}_{number}" for name in own & taken},
            )
        )
        taken |= own
    for extra in extras:
        if not any(stage and extra in stage.shape.added for stage in found):
            raise SpecError(f"--with {extra} is for no stage of this chain; leave it out")
    return found
