"""The documented command line is the real one."""

from jobs.cli.reference import reference
from tests.places import CHECKOUT

PAGE = CHECKOUT / "docs" / "cli.md"


def test_the_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m jobs.cli.reference > docs/cli.md"
