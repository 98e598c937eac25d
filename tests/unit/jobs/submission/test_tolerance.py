"""How many lines may be rejected."""

import pytest

from jobs.errors import SpecError
from jobs.submission.tolerance import Tolerance


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
        ("0.1%", 1, 999, False),  # to the document: 0.1 is no binary fraction
        ("29%", 29, 100, True),
        ("100%", 5, 5, True),
    ],
)
def test_a_number_or_a_share_of_all_documents(text: str, rejected: int, documents: int, is_allowed: bool) -> None:
    assert Tolerance.parse(text).allows(rejected, documents) is is_allowed


@pytest.mark.parametrize("text", ["", "%", "-1", "1.5", "101%", "100.1%", "1e3", "five", "٥", "1%%", "nan%", "5\n"])
def test_anything_else_is_one_sentence(text: str) -> None:
    with pytest.raises(SpecError, match=r"is neither a number of lines, such as 10, nor a share from 0% to 100%"):
        Tolerance.parse(text)


def test_it_reads_back_as_it_is_written() -> None:
    assert [str(Tolerance.parse(text)) for text in ("10", "5%", "0.50 %")] == ["10", "5%", "0.50%"]
