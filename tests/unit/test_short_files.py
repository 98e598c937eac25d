"""A short file of the packages has a second importer, or its content stands in the only one."""

import re
from collections import defaultdict
from pathlib import Path

from tests.places import CHECKOUT

SHORT = 40  # lines
STANDS_ALONE = {  # short, imported once, and why it is a file all the same
    "jobs/web/pages/schema.py": "each page has a file",
    "worker/graphs/fusion/fuse.py": "the door of its folder: an engine does not edit graphs",
    "worker/models/departures/norm_evidence.py": "each kind of evidence has a file",
}
IMPORT = re.compile(r"^ *(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)


def test_a_short_file_has_a_second_importer_or_stands_in_the_only_one() -> None:
    files = {name_of(file): file for package in ("jobs", "worker") for file in (CHECKOUT / package).rglob("*.py")}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, file in files.items():
        for imported in imports_of(file.read_text(encoding="utf-8")):
            importers[imported].add(name)

    alone = {
        file.relative_to(CHECKOUT).as_posix()
        for name, file in files.items()
        if file.name != "__init__.py"
        and len(importers[name]) == 1
        and len(file.read_text(encoding="utf-8").splitlines()) < SHORT
    }

    assert alone == set(STANDS_ALONE)


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(source: str) -> set[str]:
    """The modules that are imported, at the top or in a function; the names that are imported from each as well."""
    found = set()
    for package, names, module in IMPORT.findall(source):
        found |= {module or package} | {f"{package}.{name}" for name in re.findall(r"\w+", names)}
    return found
