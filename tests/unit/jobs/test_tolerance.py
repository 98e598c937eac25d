"""`--max-rejected`: how many lines may be rejected."""

import pytest

from jobs.errors import SpecError
from jobs.tolerance import Tolerance


@pytest.mark.parametrize(
    ("text", "rejected", "documents", "is_allowed"),
    [
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("3", 3, 3, True),
        ("3", 4, 10**7, False),
        ("0%", 0, 10, True),
        ("0%", 1, 10**7, False),
        ("0.1%", 1, 1000, True),
        ("0.1%", 1, 999, False),  # exact to the document: 0.1 is not a binary fraction
        ("29%", 29, 100, True),
        ("100%", 5, 5, True),
    ],
)
def test_the_tolerance_is_a_number_or_a_share_of_all_documents(
    text: str, rejected: int, documents: int, is_allowed: bool
) -> None:
    assert Tolerance.parse(text).allows(rejected, documents) is is_allowed


@pytest.mark.parametrize("text", ["", "%", "-1", "1.5", "101%", "100.1%", "1e3", "five", "٥", "1%%", "nan%", "5\n"])
def test_any_other_value_is_refused_with_one_sentence(text: str) -> None:
    with pytest.raises(SpecError, match=r"number of lines.*0% to 100%"):
        Tolerance.parse(text)


def test_a_tolerance_is_read_back_as_it_was_written() -> None:
    assert [str(Tolerance.parse(text)) for text in ("10", "5%", "0.50 %")] == ["10", "5%", "0.50%"]
