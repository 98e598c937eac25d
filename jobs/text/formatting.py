"""Numbers, sizes, durations and times formatted for people, and texts that are safe to show: no character of a corpus
can control a terminal, or hide in a page."""

import math
import re
from datetime import datetime
from typing import Any

NOTHING = "-"


def count(number: int | None) -> str:
    """1234567 as 1,234,567."""
    return NOTHING if number is None else f"{number:,}"


def counted(number: int, noun: str) -> str:
    """`1 document`, `2 documents`, `2 queries`."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`documents`, `queries`."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def figure(value: float | None, *, is_signed: bool = False) -> str:
    """A measured number with three significant digits, all digits before the point, and separators: 178,028, 43.1,
    0.00120. Every number for people that is not a count comes from here; JSON and CSV have all its digits."""
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return str(value).replace("inf", "∞")
    rounded = abs(float(f"{value:.2e}"))
    if not rounded:
        return "0"
    sign = "+" if is_signed else ""
    if not SMALLEST <= rounded < LARGEST:
        return f"{value:{sign}.2e}"
    return f"{value:{sign},.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


SMALLEST, LARGEST = 1e-4, 1e9  # the numbers between these are written without an exponent


def speed(tokens_per_s: float | None) -> str:
    """1234.5 as 1,234 tokens/s."""
    return NOTHING if tokens_per_s is None else f"{figure(tokens_per_s)} tokens/s"


def percent(share: float) -> str:
    """0.1234 as 12.3 %. Rounded down, so that 100.0 % means all; but the noise of a sum of floats does not count."""
    return f"{int(share * 1000 + 1e-9) / 10:.1f} %"


def duration(seconds: float | None) -> str:
    """The two largest units: 3.2 s, 4 min 05 s, 2 h 10 min, 3 d 4 h."""
    if seconds is None:
        return NOTHING
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def precise(seconds: float) -> str:
    """Three digits below a minute: 0.0206 s, 1.69 s, 1 min 05 s."""
    return f"{figure(seconds)} s" if seconds < 59.95 else duration(seconds)


def size(num_bytes: float) -> str:
    """1536 as 1.50 KiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:,.0f} {unit}" if unit == "bytes" else f"{figure(num_bytes)} {unit}"
        num_bytes /= 1024
    return f"{figure(num_bytes)} TiB"


def moment(at: datetime | None) -> str:
    """A time in the local time zone, to the second."""
    return NOTHING if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def plain(value: Any) -> str:
    """Any value of a table's cell as text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        shown = figure(value)  # of which nobody knows how exact it is: 0.5, not 0.500
        return shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown
    return moment(value) if isinstance(value, datetime) else str(value)


# Control characters, the marks that reverse the direction of writing, line separators, and halves of surrogate pairs.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: object) -> str:
    r"""One line that is safe to show: an escape character shows as \x1b, and a newline as \n."""
    return UNSAFE.sub(_escape, str(text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
