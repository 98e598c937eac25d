"""
Loops in generated text: a sequence that the model repeats again and again, and that the source does not repeat.

Knows: texts, as characters; so it holds for scripts without spaces, and for providers that give no tokens. Does not
know: models.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_MAX_PERIOD = 512  # characters: a longer sequence is not looked for
_MIN_REPEATS = 4
_LONG, _MIN_REPEATS_OF_LONG = 48, 3  # characters; nobody writes as much three times in a row
# In characters, all repeats together: shorter ones are ordinary text, such as "ha ha ha ha".
_MIN_LENGTH = 16
# A Chinese character is a syllable, mostly a word: 克克克克克克 is six of them. 哈哈哈哈 is ordinary text.
_HAN = "[\u3400-\u9fff]"
_SHORT_LOOP_OF_HAN = re.compile(rf"({_HAN})\1{{5}}|({_HAN}{{2}})\2{{3}}|({_HAN}{{3}})\3{{3}}")
_MIN_LENGTH_WITHOUT_LETTERS = 120  # more than a rule across a page, a row of dots before a number, or an indentation
# A translation may repeat what its source repeats, if it does so about as often: languages differ in what is a
# repeat ("ha ha ha ha" is 哈哈哈哈 or 哈哈), and a model that breaks off leaves some out.
_MIN_SOURCE_REPEATS, _MIN_SOURCE_LENGTH = 2.5, 6
_LEAST_OF_SOURCE, _MOST_OF_SOURCE = 0.25, 1.5


class _RepeatedRun(NamedTuple):
    """A stretch of a text in which every character is the one `period` before it."""

    start: int
    length: int  # the first repeat included
    period: int

    @property
    def repeats(self) -> float:
        """How often the sequence occurs; not whole, since the last repeat may lack its separator, a space or comma."""
        return (self.length + 1) / self.period


def has_loop(text: str, source: str = "") -> bool:
    """Whether a sequence of up to 512 characters is repeated in a row, anywhere in the text: at least 4 times, or 3 if
    it is long. All repeats together are 16 characters, or 6 of Chinese. Repeats without a letter (`-----`, `0 0 0 0`)
    need more than a line of them.

    A loop does not count if the source repeats something about as often. A sentence takes as long as a set of its
    8-grams, a text with repeats at most 512 comparisons a character.
    """
    loops = list(_primitive(_short_loops_of_han(text)))
    if _has_equal_grams(text):
        runs = _runs(text, lambda period: _MIN_REPEATS if period < _LONG else _MIN_REPEATS_OF_LONG)
        loops += [
            run for run in _primitive(runs) if _has_letter(text, run) or run.length >= _MIN_LENGTH_WITHOUT_LETTERS
        ]
    if not loops:
        return False
    folded = source.casefold()
    allowed = list(_primitive(_runs(folded, lambda period: _MIN_SOURCE_REPEATS, _MIN_SOURCE_LENGTH)))
    return not all(
        any(
            _has_letter(text, run) == _has_letter(folded, in_source)
            and _LEAST_OF_SOURCE <= run.repeats / in_source.repeats <= _MOST_OF_SOURCE
            for in_source in allowed
        )
        for run in loops
    )


def _short_loops_of_han(text: str) -> Iterator[_RepeatedRun]:
    for found in _SHORT_LOOP_OF_HAN.finditer(text):
        period = len(found[found.lastindex or 0])
        length = found.end() - found.start()
        while text[found.start() + length : found.start() + length + 1] == text[found.start() + length - period]:
            length += 1
        yield _RepeatedRun(found.start(), length, period)


def _has_equal_grams(text: str) -> bool:
    """Whether a loop is possible: of a length L and a period p, all but p of its L - 7 sequences of 8 characters are
    equal to one before. That is 5 for 16 characters and a period of 4, and more for any others."""
    num_grams = max(len(text) - 7, 0)
    return len({text[start : start + 8] for start in range(num_grams)}) <= num_grams - 5


def _has_letter(text: str, run: _RepeatedRun) -> bool:
    return any(map(str.isalpha, text[run.start : run.start + run.period]))


def _primitive(runs: Iterable[_RepeatedRun]) -> Iterator[_RepeatedRun]:
    """Drop runs that lie within a run of a shorter period: a text that repeats every 2 characters also does every 4."""
    kept: list[_RepeatedRun] = []
    for run in runs:
        stop = run.start + run.length
        if not any(outer.start <= run.start and stop <= outer.start + outer.length for outer in kept):
            kept.append(run)
            yield run


def _runs(text: str, min_repeats: Callable[[int], float], min_length: int = _MIN_LENGTH) -> Iterator[_RepeatedRun]:
    """The longest runs of at least min_repeats(period) repeats and `min_length` characters, shortest period first."""
    for period in range(1, min(_MAX_PERIOD, len(text) // 2) + 1):
        end = len(text) - period
        # In a run, `needed` characters in a row equal the character a period later, so it is enough to look at every
        # `needed`-th index.
        needed = max(math.ceil(min_repeats(period) * period) - 1, min_length) - period
        before = -1  # the last index known to differ from the character a period later
        index = needed - 1
        while index < end:
            if text[index] != text[index + period]:
                before = index
            else:
                start, stop = index, index + 1
                while start > before + 1 and text[start - 1] == text[start - 1 + period]:
                    start -= 1
                while stop < end and text[stop] == text[stop + period]:
                    stop += 1
                if stop - start >= needed:
                    yield _RepeatedRun(start, stop - start + period, period)
                before = stop
            index = before + needed
