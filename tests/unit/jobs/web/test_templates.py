"""Templates can be read and compared line by line.

Where a break between two elements must not become a space on the page, the next line begins with `{#- #}`, or with the
`-` of the tag that stands there."""

from tests.places import CHECKOUT

LONGEST = 160


def test_no_line_of_a_template_is_longer_than_a_screen() -> None:
    templates = sorted((CHECKOUT / "jobs" / "web" / "templates").iterdir())

    assert {template.name for template in templates} >= {"layout.html", "documents.html"}
    for template in templates:
        for number, line in enumerate(template.read_text(encoding="utf-8").splitlines(), start=1):
            assert len(line) <= LONGEST, f"{template.name}:{number}"
