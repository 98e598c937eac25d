"""Every file, module and link that a page names exists; lines are short; the changelog has the current version."""

import re
from pathlib import Path

import pytest

from jobs import __version__
from tests.places import CHECKOUT

GENERATED = CHECKOUT / "docs" / "cli.md"  # has a test of its own; help texts name no files
HISTORY = CHECKOUT / "CHANGELOG.md"
PAGES = sorted(
    {page for glob in ("*.md", "*/*.md", "docs/*/*.md", "worker/demo/*/*.md") for page in CHECKOUT.glob(glob)}
    - {GENERATED, HISTORY}
)
TOP = "jobs|worker|bench|tools|tests|migrations|docs|examples|deploy|\\.ci"
FILE = re.compile(rf"(?<![\w./@-])(?:{TOP})/[\w./*-]*[\w*/]")  # worker/engine/search/beam.py
MODULE = re.compile(rf"(?<![\w./@-])(?:{TOP.split('|migrations')[0]})(?:\.\w+)+")  # jobs.outcome.Flag
LONGEST = 124  # characters of a line
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")  # [text](docs/cli.md)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    missing = [name for name in FILE.findall(text) if not list(CHECKOUT.glob(name.rstrip("/")))]
    missing += [name for name in MODULE.findall(text) if not is_module(name)]
    missing += [name for name in LINK.findall(text) if not (page.parent / name).exists()]

    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, GENERATED, HISTORY], ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_line_outside_tables_is_longer_than_others(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)

    assert [number for number, line in lines if len(line) > LONGEST and not line.lstrip().startswith("|")] == []


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    newest = re.search(r"^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d$", HISTORY.read_text(encoding="utf-8"), re.MULTILINE)

    assert newest is not None
    assert newest[1] == __version__


def is_module(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of a module."""
    place, parts = CHECKOUT, name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if not parts:
        return True
    file = place / f"{parts[0]}.py"
    if not file.is_file():
        return name.endswith(".py") and (CHECKOUT / name).is_file()
    source = file.read_text(encoding="utf-8")
    return all(re.search(rf"\b{re.escape(part)}\b", source) for part in parts[1:])
