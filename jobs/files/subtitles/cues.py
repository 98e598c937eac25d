"""The cues of a file with the positions of their texts.

`pysubs2` writes a file anew, without its notes, settings of cues and blanks, so the positions are used.

Knows: the three formats. Does not know: sentences.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.errors import CorpusError

_TIME = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})[,.](\d{1,3})"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t][^\r\n]*+)?[ \t]*")
_LINE = re.compile(r"([^\r\n]*+)(\r\n|\n|\r|\Z)")
_EVENT_TIME = re.compile(r"\s*(\d{1,4}):(\d{1,3}):(\d{1,2})[.:](\d{1,3})\s*")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_LAST_CODE = re.compile(r"\{[^{}]*\}\Z")
_LONGEST_CODE = 400  # characters, at the end of a cue
_FIRST_CODES = re.compile(r"(?>(?:\{[^{}]*\}|\s)*)")


@dataclass(frozen=True, slots=True)
class Cue:
    """A text on the screen: `start` and `stop` are its positions in the file, without the codes (`{\\an8}`) and blanks
    around it."""

    start: int
    stop: int
    begins_s: float
    ends_s: float
    lines: list[str]
    voice: str = ""  # style and speaker, where the format says them


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str
    stop: int


def cues_of_blocks(text: str, *, blank_line_ends: bool) -> list[Cue]:
    """Of .srt and .vtt. In WebVTT a blank line ends a cue; in .srt the number and the time of the next one do."""
    lines = list(_lines(text))
    timings = [(number, found) for number, line in enumerate(lines) if (found := _TIMING.fullmatch(line.text))]
    cues: list[Cue] = []
    for index, (number, found) in enumerate(timings):
        end = timings[index + 1][0] if index + 1 < len(timings) else len(lines)
        if index + 1 < len(timings) and lines[end - 1].text.strip().isdecimal() and end - 1 > number:
            end -= 1
        rows = lines[number + 1 : end]
        if blank_line_ends:
            rows = rows[: next((at for at, row in enumerate(rows) if not row.text.strip()), len(rows))]
        while rows and not rows[-1].text.strip():
            rows.pop()
        if rows:
            begins, ends = _seconds(found.groups()[:4]), _seconds(found.groups()[4:])
            cues += _cue(text, rows[0].start, rows[-1].stop, begins, ends, r"\s*[\r\n]\s*")
    return cues


def cues_of_events(text: str) -> list[Cue]:
    """Of .ass and .ssa: the lines `Dialogue:` whose text is no drawing. Raises CorpusError for one with too few
    fields."""
    fields: list[str] = []
    is_events = False
    cues: list[Cue] = []
    for number, line in enumerate(_lines(text), 1):
        name, _, rest = line.text.partition(":")
        if line.text.startswith("["):
            is_events = line.text.strip().lower() == "[events]"
        elif is_events and name.strip() == "Format":
            fields = [each.strip().lower() for each in rest.split(",")][:50]
        elif is_events and name.strip() == "Dialogue" and fields[-1:] == ["text"]:
            values = rest.split(",", len(fields) - 1)
            if len(values) < len(fields):
                raise CorpusError(f"line {number}: {len(values)} fields, and Format names {len(fields)}")
            by_name = dict(zip(fields, values, strict=True))
            if _DRAWING.search(values[-1]) is None:
                begins, ends = (_event_seconds(by_name.get(each, "")) for each in ("start", "end"))
                voice = f"{by_name.get('style', '').strip()} {by_name.get('name', '').strip()}"
                cues += _cue(text, line.stop - len(values[-1]), line.stop, begins, ends, r"\s*\\[Nn]\s*", voice)
    return cues


def _cue(
    text: str, start: int, stop: int, begins_s: float, ends_s: float, line_end: str, voice: str = ""
) -> Iterator[Cue]:
    inner = text[start:stop]
    first = _FIRST_CODES.match(inner)
    assert first is not None
    left = first.end()
    right = len(inner)
    while right > left:  # codes and blanks at the end, one at a time
        if inner[right - 1].isspace():
            right -= 1
        elif (code := _LAST_CODE.search(inner, max(left, right - _LONGEST_CODE), right)) is not None:
            right = code.start()
        else:
            break
    if right > left:
        lines = [line for line in re.split(line_end, inner[left:right]) if line]
        yield Cue(start + left, start + right, begins_s, ends_s, lines, voice)


def _lines(text: str) -> Iterator[_Line]:
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        found = _LINE.match(text, at)
        assert found is not None
        yield _Line(at, found[1], found.end(1))
        at = found.end()


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")


def _event_seconds(value: str) -> float:
    found = _EVENT_TIME.fullmatch(value)
    return 0.0 if found is None else _seconds(found.groups())
