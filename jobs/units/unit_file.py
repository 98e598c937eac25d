"""A file of translation units in one of its formats, by the end of its name: .tmx, .tsv."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from jobs.errors import SpecError
from jobs.units.tmx import read_tmx, write_tmx
from jobs.units.translation_unit import BadUnit, TranslationUnit, UnitFileError, UnitLanguages
from jobs.units.tsv import read_tsv, write_tsv

FORMATS = ("tmx", "tsv")


def format_of_units(path: Path) -> str:
    """The format of a file of this name, before `.gz`. Raises SpecError where it is none of `FORMATS`."""
    name = path.name.lower().removesuffix(".gz")
    for known in FORMATS:
        if name.endswith(f".{known}"):
            return known
    raise SpecError(f"{path.name}: units are in files that end in .tmx or .tsv")


def read_units(path: Path, languages: UnitLanguages) -> Iterator[TranslationUnit | BadUnit]:
    """The units of a file, `.gz` or not, in its order, in bounded memory. Raises SpecError, which names the file and
    where it is broken, and OSError."""
    read = {"tmx": read_tmx, "tsv": read_tsv}[format_of_units(path)]
    is_compressed = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_compressed else path.open("rb") as stream:
            yield from read(cast(BinaryIO, stream), languages)
    except UnitFileError as error:
        raise SpecError(f"{path}: {error}") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise SpecError(f"{path} is no complete gzip file: {error}") from None


def write_units(
    units: Iterable[TranslationUnit], file_format: str, source_language: str | None, write: Callable[[bytes], object]
) -> int:
    """Write units in one of `FORMATS`, and return how many. `source_language`: of all of them; None: of several."""
    return write_tmx(units, source_language, write) if file_format == "tmx" else write_tsv(units, write)
