"""What a mark is, and by which rules marks are found."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.tasks.kept_patterns import kept_pattern
from jobs.terms.glossary import Glossary
from jobs.text.markup import Markup
from worker.text.terms.matcher import TermMatcher, matcher_of

if TYPE_CHECKING:
    import regex


class Kind(enum.StrEnum):
    """What a mark does in a sentence."""

    OPEN = "open"  # the beginning of a pair: <b>
    CLOSE = "close"  # its end: </b>
    ALONE = "alone"  # a tag without an end, a comment
    WORD = "word"  # stands for a word: {name}, a URL
    BREAK = "break"  # separates sentences: <br>, <p>, \n, the frame of an ICU plural
    BLANK = "blank"  # a space that is written in another way: &nbsp;
    WRAP = "wrap"  # a line break of HTML with the white space around it: a space, which is not put back
    CHARACTER = "character"  # a letter or sign that is written in another way: &amp;. The model sees what it means.


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of a text."""

    start: int  # in characters of the text
    stop: int
    kind: Kind
    name: str = ""  # of a tag, by which a pair is found; of a CHARACTER what it means
    partner: int | None = None  # of OPEN and CLOSE: the index of the other


@dataclass(frozen=True, slots=True)
class MarkRules:
    """What counts as a mark."""

    markup: Markup = Markup.NONE
    placeholders: bool = False  # placeholders, escapes, URLs, e-mail addresses, file paths
    keep: tuple["regex.Pattern[str]", ...] = ()  # what else stays
    terms: TermMatcher | None = None  # those that stay

    @classmethod
    def of(cls, markup: Markup, placeholders: bool, keep: Sequence[str], terms: Glossary | None = None) -> "MarkRules":
        """The rules of these options. Raises SpecError for a pattern that is none, or that matches an empty text."""
        return cls(markup, placeholders, tuple(map(kept_pattern, keep)), None if terms is None else matcher_of(terms))

    def __bool__(self) -> bool:
        """Whether anything can be a mark."""
        return self.markup != Markup.NONE or self.placeholders or bool(self.keep) or self.terms is not None
