"""Real files through the readers and writers of translated formats: do they come back byte for byte?

    python -m bench.round_trip FOLDER... [--formats yaml,resx] [--files 1000] [--seed 1] [--list]

Of each format a sample of the files below the folders (links are not followed) is read and written twice: with its own
texts, which has to give the same bytes, and with a word behind each text, after which the units have to be found again.
`--list` names the files that were refused or did not come back, with the reason.
"""

import argparse
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobs.errors import CorpusError, SpecError
from jobs.files.formats import FORMATS, format_of
from jobs.files.translatable import FileFormat, ForeignFile

LARGEST = 50_000_000  # bytes of a file


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    arguments.add_argument("--files", type=int, default=1000, help="of each format, at most")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--list", action="store_true", help="name the files that do not come back")
    arguments.add_argument("--formats", default="", help="their names, with commas; all by default")
    asked = arguments.parse_args()
    formats = list({form.name: form for form in map(format_of, FORMATS)}.values())
    if asked.formats:
        formats = [form for form in formats if form.name in asked.formats.split(",")]
    by_format = files_by_format(asked.folders, formats)
    print(f"{'format':10} {'files':>6} {'equal':>6} {'found again':>11} {'refused':>7} {'units':>8} {'MB/s':>6}")
    for form in formats:
        files = sorted(by_format[form.name])
        sample = random.Random(asked.seed).sample(files, min(asked.files, len(files)))
        report(form, sample, list_them=asked.list)


def files_by_format(folders: Iterable[Path], formats: Iterable[FileFormat]) -> defaultdict[str, set[Path]]:
    found: defaultdict[str, set[Path]] = defaultdict(set)
    names = {suffix: form.name for form in formats for suffix in form.suffixes}
    for file in files_below(folders):
        if (name := names.get(file.suffix.lower())) is not None:
            found[name].add(file)
    return found


def files_below(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                file = Path(place, name)
                if not file.is_symlink() and file.is_file():
                    yield file


def report(form: FileFormat, files: Iterable[Path], *, list_them: bool) -> None:
    counts: Counter[str] = Counter()
    seconds = 0.0
    for file in files:
        content = file.read_bytes()
        if len(content) > LARGEST:
            continue
        start = time.perf_counter()
        try:
            verdict, units = round_trip(form, content)
        except ForeignFile:
            continue
        seconds += time.perf_counter() - start
        counts.update(files=1, units=units, bytes=len(content), equal=verdict in ("", "lost"), lost=verdict == "lost")
        counts["refused"] += verdict not in ("", "lost", "differs")
        if verdict and list_them:
            print(f"  {file}: {verdict}")
    again = counts["equal"] - counts["lost"]
    speed = counts["bytes"] / 1e6 / seconds if seconds else 0.0
    print(
        f"{form.name:10} {counts['files']:6} {counts['equal']:6} {again:11} {counts['refused']:7} {counts['units']:8} "
        f"{speed:6.1f}"
    )


def round_trip(form: FileFormat, content: bytes) -> tuple[str, int]:
    """What became of a file ("" where all is well, "differs", "lost", or why it was refused), and how many units."""
    try:
        file = form.read(content, again=True, target_language="de")
    except ForeignFile:
        raise
    except CorpusError as refused:
        return str(refused), 0
    units = file.units
    if file.write([unit.text for unit in units]) != content:
        return "differs", len(units)
    try:
        again = form.read(file.write([f"{unit.text} xyz" for unit in units]), again=True, target_language="de")
    except SpecError:
        return "lost", len(units)
    return "" if len(again.units) == len(units) else "lost", len(units)


if __name__ == "__main__":
    main()
