"""A comment says how long a translation may be, in every format that has such comments."""

import pytest

from jobs.files.char_limit import char_limit
from jobs.files.resources.android_strings import FORMAT
from jobs.files.resources.json_texts import ARB, JSON


@pytest.mark.parametrize(
    ("comment", "most"),
    [
        ("Title. [CHAR LIMIT=30]", 30),
        ("[CHAR_LIMIT: 12] of a button", 12),
        ("[CHAR LIMIT=NONE]", None),
        ("[CHAR LIMIT=0]", None),
        (f"[CHAR LIMIT={'9' * 40}]", None),
        ("char limit=3", None),
        (None, None),
    ],
)
def test_a_limit_is_a_number_of_characters(comment: str | None, most: int | None) -> None:
    assert char_limit(comment) == most


def test_units_have_the_limit_of_their_comments() -> None:
    android = (
        b"<resources><!-- [CHAR LIMIT=9] --><string name='a'>One</string><!-- [CHAR LIMIT=8] --><plurals name='b'>"
        b"<item quantity='one'>One</item><item quantity='other'>Two</item></plurals></resources>"
    )
    arb = b'{"a": "One", "@a": {"description": "[CHAR_LIMIT=7]"}, "b": "Two"}'
    chrome = b'{"a": {"message": "One", "description": "[CHAR LIMIT=6]"}}'

    assert [unit.max_chars for unit in FORMAT.read(android, target_language="ru").units] == [9, 8, 8, 8, 8]
    assert [unit.max_chars for unit in ARB.read(arb).units] == [7, None]
    assert [unit.max_chars for unit in JSON.read(chrome).units] == [6]
