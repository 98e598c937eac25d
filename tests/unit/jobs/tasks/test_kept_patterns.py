"""What a pattern of --keep matches: what Python's re does."""

import re

import pytest

from jobs.errors import SpecError
from jobs.tasks.kept_patterns import kept_pattern

TEXT = r"a {i} {name} {e<=1} x{2} xx \{ [b] ABC-123 €5 naïve \\{s} {}"


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"[A-Z]+-[0-9]+", "a", "x{2}", "x{1,2}", "x{,2}y?x", "(?:x){i}", "{name}", r"\{i\}", "(?:a){e<=1}", "[{]i"),
        *(r"\w+", r"(?i)abc", r"\\{s}", r"\N{EURO SIGN}\d", "[{a]+", r"{}", r"(?P<n>x)(?P=n)", "b(?=])"),
    ],
)
def test_a_pattern_matches_what_it_matches_in_re(pattern: str) -> None:
    found = [match.span() for match in kept_pattern(pattern).finditer(TEXT)]

    assert found == [match.span() for match in re.finditer(pattern, TEXT)]


@pytest.mark.parametrize("pattern", ["(", r"\p{L}", "a**", "a*", "(?:)", "x{0}"])
def test_what_re_refuses_and_what_matches_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(SpecError, match="keep"):
        kept_pattern(pattern)
