"""How long to wait before a request is sent again."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.providers.http.client import LONGEST_PAUSE_S, backoff_s, retry_after_s

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("Sun, 22 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("٣", None),
        ("", None),
        ("Fri, 31 Dec 99999999999999 23:59:59 GMT", None),  # the parser of the standard library overflows
    ],
)
def test_retry_after_is_seconds_or_a_date_and_nothing_else(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds


@given(
    st.text(max_size=40)
    | st.from_regex(r"\w{3}, \d{1,20} \w{3} \d{1,20} \d{1,3}:\d{1,3}:\d{1,3} [+-]?\w*", fullmatch=True)
)
def test_any_header_is_a_time_or_none(header: str) -> None:
    seconds = retry_after_s(header, NOW)

    assert seconds is None or seconds >= 0


@given(attempt=st.integers(1, 100), seed=st.integers())
def test_the_backoff_grows_and_is_bounded(attempt: int, seed: int) -> None:
    wait_s = backoff_s(attempt, random.Random(seed))

    assert 0.25 * min(2.0 ** (attempt - 1), 16) <= wait_s <= LONGEST_PAUSE_S
