"""The commands of kvjobs in docs/fleet/*.md exist. (Those of docs/fleet.md: test_compose.py.)"""

import re
import shlex
from pathlib import Path

import pytest

from tests.places import CHECKOUT
from tests.unit.test_compose import parse

PAGES = sorted((CHECKOUT / "docs" / "fleet").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_in_the_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"^    (?:kubectl .* -- kvjobs|kvjobs) ([^|>\n]*)", text, re.MULTILINE)
    assert shown
    for line in shown:
        parse(shlex.split(line, comments=True))
