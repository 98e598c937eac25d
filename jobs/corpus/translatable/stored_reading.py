"""How the files of a job were read, from the JSON of its row.

Knows: `jobs.reading`. Does not know: tables, files.
"""

from dataclasses import dataclass
from pathlib import PurePath

import orjson

from jobs.corpus.corpus_format import Format
from jobs.corpus.translatable.reader import UnitReading


@dataclass(frozen=True, slots=True)
class StoredReading:
    """How translated files were read, and whether they were one file without a folder."""

    units: UnitReading
    is_one: bool
    name: str | None = None  # of the one file, where the source of the job does not end in it

    def name_of_one(self, source: str) -> str:
        """The name of the one file of a corpus with this source."""
        return self.name or PurePath(source).name


def reading_of_files(reading: str | None) -> StoredReading | None:
    """How the files of a job were read; None for a job of another corpus."""
    values = orjson.loads(reading) if reading else {}
    if values.get("format") != Format.FILES:
        return None
    how = values.get("units", {})
    units = UnitReading(again=how.get("again", False), target_language=how.get("target_language"))
    return StoredReading(units, how.get("one", False), how.get("name"))
