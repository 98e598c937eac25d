"""When a request is sent again, and after how long."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# HTTP statuses after which the same request may succeed. 408, 409 and 425: a time-out, a lock, and a request that came
# too early, after which OpenAI's own client asks again too.
BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0  # of the backoff
LONGEST_WAIT_S = 60.0  # of all pauses of a request; a server that asks for more is given up: the next provider is asked


def backoff_s(attempt: int, rng: random.Random) -> float:
    """Seconds after attempt number `attempt`, from 1, until the next: twice as long each time, less up to a half by
    chance, so that many workers do not come back at once."""
    return min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S) * rng.uniform(0.5, 1.0)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a Retry-After header asks for, which are a number or a date (RFC 9110, 10.2.3); None for no
    header, and for one that is neither."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdecimal():  # some servers send fractions
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):  # what the parser raises for nonsense (Python 3.11)
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
