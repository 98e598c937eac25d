r"""Subtitles as translatable files: .srt, .vtt, .ass and .ssa.

1                                     one unit, "We went to the river and came back.", whose translation is laid out
00:00:01,000 --> 00:00:03,000         again over both cues, by their lengths, in lines of at most 42 characters, or
{\an8}We went to the river            as many as the longest line of the file has
                                      (`{\an8}` stays where it is)
2
00:00:03,100 --> 00:00:05,000
and came back.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from xml.sax.saxutils import escape

from jobs.documents import quoted
from jobs.errors import CorpusError, SpecError
from jobs.files.markup.encodings import decoded, encoded
from jobs.files.subtitles.cues import Cue, cues_of_blocks, cues_of_events
from jobs.files.subtitles.layout import LINE, in_lines, over_cues, visible
from jobs.files.translatable import Markup, TranslatableFile, Unit
from jobs.files.words import has_word

MAX_CUES = 8  # of a sentence
GAP_S = 3.0  # a longer silence ends a sentence
_PUNCTUATED = 0.3  # share of cues that end a sentence, from which on a cue without a full stop goes on in the next one

_FINAL = re.compile(r"[.?!:;。！？।؟♪♫]['\"”’»)\]\s]*\Z")
_GOES_ON = re.compile(r"(?:\.\.\.|…)\Z")
_DASH = re.compile(r"(?:<[^<>]*>)*\s*[-‐–—](?!-)")
_OPENING = re.compile(r"(?>(?:<[^<>]*>|[\s\"'“‘«(.…])*)")
_CODE = re.compile(r"\{[^{}]*\}|<\d[\d:.]*>")
_TIMED = re.compile(r"\{[^{}]*\\[kK]|<\d")  # words that have times of their own, as in karaoke
_NUMBERED = re.compile(r'<x id="(\d{1,6})"\s*/>')
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|&(?:\w{2,8}|#\d{1,7});")


@dataclass(slots=True)
class Subtitles:
    """A format."""

    name: str
    suffixes: tuple[str, ...]
    cues: Callable[[str], list[Cue]]
    line_end: str | None  # within a cue; None for that of the file

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The sentences, named by the number of their first cue. Raises CorpusError for bytes of no encoding and for
        an event with too few fields."""
        text, encoding = decoded(content, None)
        if self.name == "vtt" and not text.removeprefix("\ufeff").startswith("WEBVTT"):
            raise CorpusError("line 1: a file of WebVTT begins with WEBVTT")
        return SubtitleFile(self, text, encoding)


SRT = Subtitles("srt", (".srt",), lambda text: cues_of_blocks(text, blank_line_ends=False), None)
VTT = Subtitles("vtt", (".vtt",), lambda text: cues_of_blocks(text, blank_line_ends=True), None)
ASS = Subtitles("ass", (".ass", ".ssa"), cues_of_events, r"\N")


@dataclass(frozen=True, slots=True)
class _Sentence:
    unit: Unit
    cues: Sequence[Cue]
    codes: Sequence[str]  # what the numbered marks stand for
    talk: bool  # lines of several people, each with a dash


@dataclass(frozen=True, slots=True)
class SubtitleFile:
    """A file that was read."""

    form: Subtitles
    text: str
    encoding: str
    width: int = field(init=False)  # of a line, in characters
    line_end: str = field(init=False)  # within a cue
    sentences: Sequence[_Sentence] = field(init=False)

    def __post_init__(self) -> None:
        cues = self.form.cues(self.text)
        longest = max((visible(_CODE.sub("", line)) for cue in cues for line in cue.lines), default=0)
        object.__setattr__(self, "width", max(LINE, longest) if longest < 2 * LINE else LINE)
        object.__setattr__(self, "line_end", self.form.line_end or ("\r\n" if "\r\n" in self.text else "\n"))
        object.__setattr__(self, "sentences", list(self._sentences(cues)))

    @property
    def units(self) -> Sequence[Unit]:
        return [sentence.unit for sentence in self.sentences]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these sentences. (No place says the language but the name of the file.) Raises SpecError for a
        character that the encoding of the file lacks."""
        pieces, at = [], 0
        for sentence, text in zip(self.sentences, texts, strict=True):
            if text is None or text == sentence.unit.text:
                continue
            for cue, part in zip(sentence.cues, self._parts(sentence, text), strict=True):
                pieces += [self.text[at : cue.start], part]
                at = cue.stop
        whole = "".join([*pieces, self.text[at:]])
        try:
            return encoded(whole, self.encoding)
        except UnicodeEncodeError as error:
            raise SpecError(
                f"{self.encoding}, the encoding of the file, lacks {quoted(whole[error.start : error.start + 1])}; "
                "convert the file to UTF-8"
            ) from error

    def _sentences(self, cues: Sequence[Cue]) -> Iterator[_Sentence]:
        final = sum(_ends(cue) for cue in cues) >= _PUNCTUATED * len(cues)
        group: list[Cue] = []
        first = 1
        for number, cue in enumerate(cues, 1):
            if group and not (len(group) < MAX_CUES and _goes_on(group[-1], cue, punctuated=final)):
                yield from self._sentence(first, group)
                group = []
            if not group:
                first = number
            group.append(cue)
        if group:
            yield from self._sentence(first, group)

    def _sentence(self, number: int, cues: Sequence[Cue]) -> Iterator[_Sentence]:
        if not has_word(" ".join(_plain(line) for cue in cues for line in cue.lines)):
            return
        talk = len(cues) == 1 and _is_talk(cues[0])
        text = ("\n" if talk else " ").join(line for cue in cues for line in cue.lines)
        codes: list[str] = []
        pieces, at = [], 0
        has_codes = _CODE.search(text) is not None
        plain = escape if self.form is ASS and has_codes else str
        for found in _CODE.finditer(text):
            codes.append(found[0])
            pieces += [plain(text[at : found.start()]), f'<x id="{len(codes)}"/>']
            at = found.end()
        text = "".join([*pieces, plain(text[at:])])
        if self.form is ASS:
            markup = Markup.XML if has_codes else Markup.NONE
        else:
            markup = Markup.HTML if has_codes or _TAG.search(text) else Markup.NONE
        room = sum(max(2, len(cue.lines)) * self.width for cue in cues)
        unit = Unit(name=str(number), text=text, markup=markup, max_chars=room)
        yield _Sentence(unit, list(cues), codes, talk)

    def _parts(self, sentence: _Sentence, text: str) -> Iterator[str]:
        """What stands in each cue."""
        if sentence.talk:
            lines = [line for row in text.splitlines() for line in in_lines(" ".join(row.split()), self.width) if line]
            yield self._joined(sentence, lines)
            return
        lengths = [sum(visible(_CODE.sub("", line)) for line in cue.lines) for cue in sentence.cues]
        for part in over_cues(" ".join(text.split()), lengths):
            yield self._joined(sentence, in_lines(part, self.width))

    def _joined(self, sentence: _Sentence, lines: Sequence[str]) -> str:
        text = "\0".join(lines).replace("-->", "→")  # which stands in a time alone
        if self.form is ASS and sentence.unit.markup is Markup.NONE:
            text = text.replace("{", "(").replace("}", ")")  # a code would begin there
        elif self.form is VTT and sentence.unit.markup is Markup.NONE:
            text = escape(text)

        def code(found: re.Match[str]) -> str:
            number = int(found[1])
            return sentence.codes[number - 1] if 0 < number <= len(sentence.codes) else ""

        if self.form is ASS and sentence.unit.markup is Markup.XML:
            pieces = _NUMBERED.split(text)
            text = "".join(
                unescape(piece) if at % 2 == 0 else sentence.codes[int(piece) - 1]
                for at, piece in enumerate(pieces)
                if at % 2 == 0 or 0 < int(piece) <= len(sentence.codes)
            )
        else:
            text = _NUMBERED.sub(code, text)
        return text.replace("\0", self.line_end)


def _plain(text: str) -> str:
    return re.sub(r"<[^<>]*>|\{[^{}]*\}", "", text).strip()


def _ends(cue: Cue) -> bool:
    last = _plain(cue.lines[-1]) if cue.lines else ""
    return _FINAL.search(last) is not None and _GOES_ON.search(last) is None


def _is_talk(cue: Cue) -> bool:
    return len(cue.lines) > 1 and any(_DASH.match(line) for line in cue.lines[1:])


def _goes_on(before: Cue, cue: Cue, *, punctuated: bool) -> bool:
    """Whether a sentence that is not over at the end of a cue goes on in the next one: with a small letter, or in a
    file with full stops, without one."""
    if _ends(before) or before.voice != cue.voice or not 0 <= cue.begins_s - before.ends_s + 0.5 <= GAP_S:
        return False
    if not cue.lines or _DASH.match(cue.lines[0]) or _is_talk(before) or _is_talk(cue):
        return False
    if any(_TIMED.search(line) for line in (*before.lines, *cue.lines)):
        return False
    start = _OPENING.sub("", _CODE.sub("", cue.lines[0]), count=1)[:1]
    return start.islower() or (punctuated and start.isalnum() and _GOES_ON.search(_plain(before.lines[-1])) is None)
