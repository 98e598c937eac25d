"""docs/cli.md documents the command line as it is."""

from jobs.cli.reference import reference
from tests.places import CHECKOUT

PAGE = CHECKOUT / "docs" / "cli.md"


def test_the_page_equals_the_help_of_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m jobs.cli.reference > docs/cli.md"
