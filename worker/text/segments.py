"""A document as a sequence of spans: sentences to translate, and the text between them.

Knows: where a line and a sentence end, abbreviations (abbreviations.toml: sentencex's own lists lack many). Does not
know: tokens, models.
Marian models are trained on sentences, so a sentence is the unit of translation. Everything else (white space,
line breaks, sentences without a letter) passes through unchanged: models hallucinate on `" "` and `"-"`.
"""

import functools
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import sentencex

from jobs.tasks.translate import Segmentation
from worker.text.paragraphs import paragraphs

# Several rules of sentencex go back to the start of the text at every full stop: 100,000 characters of Chinese on one
# line took 1.6 s, and a million would have taken minutes. In windows of this size a million take 1 s.
WINDOW = 2048  # characters; a shorter line is one window
LOOK_AHEAD = 128  # characters: sentences that end this close to the end of a window are cut again in the next one
_SURROGATE = re.compile("[\ud800-\udfff]")
# sentencex 1.0.32 panics ("not a char boundary", language.rs:829) on a single capital, then white space of
# several bytes, then a full stop: "vitamin C\u00a0.". With a plain space there it does not.
_WIDE_SPACE_BEFORE_STOP = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000](?=[.])")
# sentencex has rules for 31 languages, which some 290 more share. It expects two letters where ISO 639-1 has them, and
# falls back to English for any other code. So `deu`, `de-DE` and `de_Latn` become `de`. Languages that have the English
# rules anyway are left out, unless abbreviations.toml has abbreviations for them.
_TWO_LETTERS = {
    "abk": "ab", "amh": "am", "ara": "ar", "arb": "ar", "arg": "an", "ava": "av", "aym": "ay",
    "bak": "ba", "bam": "bm", "bel": "be", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs",
    "cze": "cs", "che": "ce", "chv": "cv", "cos": "co", "dan": "da", "deu": "de", "ger": "de",
    "ell": "el", "gre": "el", "eng": "en", "fin": "fi", "fra": "fr", "fre": "fr", "glg": "gl",
    "grn": "gn", "guj": "gu", "hat": "ht", "hin": "hi", "hye": "hy", "arm": "hy", "ita": "it",
    "jpn": "ja", "kal": "kl", "kan": "kn", "kaz": "kk", "kom": "kv", "lim": "li", "lin": "ln",
    "ltz": "lb", "mal": "ml", "mar": "mr", "mlg": "mg", "mya": "my", "bur": "my", "nld": "nl",
    "dut": "nl", "oci": "oc", "oss": "os", "pan": "pa", "pol": "pl", "por": "pt", "que": "qu",
    "roh": "rm", "rus": "ru", "sag": "sg", "san": "sa", "slk": "sk", "slo": "sk", "spa": "es",
    "bos": "hr", "bs": "hr", "est": "et", "hrv": "hr", "hun": "hu", "ind": "id", "lav": "lv", "lit": "lt",
    "nb": "no", "nn": "no", "nno": "no", "nob": "no", "nor": "no", "ron": "ro", "rum": "ro", "slv": "sl",
    "swe": "sv", "tur": "tr", "vie": "vi",
    "tah": "ty", "tam": "ta", "tat": "tt", "tel": "te", "ukr": "uk", "wln": "wa", "wol": "wo",
}  # fmt: skip
_LONGEST = 40  # characters of a sentence's end and of the next one's beginning that are looked at
_NUMBER = re.compile(r"[\d№#]|[IVXLC]+\b")
_OPENING = "\"'«„“‘([¿¡"
_WORD_BEGINS = r"(?<![^\s(\[«„“‘\"'—–/-])"
_IN_WORD = r"[^\s.,;:!?()\[\]/]"  # vowel signs of Indian scripts too, which are not in \w
_WORD = re.compile(rf"[^\W\d_]{_IN_WORD}*")
_LAST_WORD = re.compile(rf"(\S*?)({_IN_WORD}+)\.$")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document. The texts of all its spans, as they are written, are the document."""

    text: str
    translatable: bool  # a sentence with at least one letter
    letterless: bool = False  # a sentence of digits, punctuation, symbols
    kept: bool = False  # of a gap: it holds marks and stays as it is
    written: str | None = None  # as the document has it, where lines were joined; None: as `text`

    @property
    def length(self) -> int:
        """How many characters of the document it takes."""
        return len(self.text if self.written is None else self.written)

    @property
    def is_gap(self) -> bool:
        """Whether the span is white space between sentences."""
        return not self.translatable and not self.letterless


def segment(text: str, language: str, unit: Segmentation = Segmentation.SENTENCES) -> list[Span]:
    r"""Cut a document at line breaks and between sentences.

        "Hi.  How are you?\n- 42 -\n"   ->   Hi.  "  "  How are you?  "\n"  - 42 -  "\n"
                                                                        letterless

    `language`: the language of the text, as `en`, `eng`, `en-GB`, `zh_Hans`; an unknown one gets the English rules.
    `unit`: of what else than the sentences of each line a span is; with PARAGRAPHS lines are joined before.
    """
    spans: list[Span] = []
    gap = end = 0  # start of the white space before the next unit; end of the last piece
    read_gap = ""  # that white space, where lines are joined
    for piece in _pieces(text, _sentencex_code(language), unit):
        start, end = end, end + len(piece.written)
        stripped = piece.read.strip()
        if not stripped:
            continue
        written = piece.written.strip()
        first = start + len(piece.written) - len(piece.written.lstrip())
        if first > gap:
            read_gap += piece.read[: len(piece.read) - len(piece.read.lstrip())]
            spans.append(_span(read_gap if piece.goes_on else text[gap:first], text[gap:first], translatable=False))
        has_letter = any(map(str.isalpha, stripped))  # isalpha: the Unicode categories L*
        spans.append(_span(stripped, written, translatable=has_letter, letterless=not has_letter))
        gap = first + len(written)
        read_gap = piece.read[len(piece.read.rstrip()) :]
    if gap < len(text):
        spans.append(Span(text[gap:], translatable=False))
    return spans


def _span(read: str, written: str, *, translatable: bool, letterless: bool = False) -> Span:
    return Span(read, translatable, letterless, written=None if read == written else written)


class _Piece(NamedTuple):
    """Consecutive pieces of a document, white space included; joined as they are written, they are the document."""

    read: str  # with lines joined
    written: str
    goes_on: bool  # whether it is of the same joined lines as the piece before


def _pieces(text: str, code: str, unit: Segmentation) -> Iterator[_Piece]:
    match unit:
        case Segmentation.NONE:
            yield _Piece(text, text, False)
        case Segmentation.LINES:
            yield from (_Piece(line, line, False) for line in text.splitlines(keepends=True))
        case Segmentation.SENTENCES:
            for line in text.splitlines(keepends=True):
                yield from (_Piece(sentence, sentence, False) for sentence in _sentences(line, code))
        case Segmentation.PARAGRAPHS:
            for paragraph in paragraphs(text):
                at = 0
                for sentence in _sentences(paragraph.read, code):
                    yield _Piece(sentence, paragraph.written_between(at, at + len(sentence)), at > 0)
                    at += len(sentence)


def _sentences(line: str, code: str) -> Iterator[str]:
    """Consecutive slices of a line, white space included; joined, they are the line."""
    if line.isspace():
        yield line
        return
    readable = _WIDE_SPACE_BEFORE_STOP.sub(" ", _SURROGATE.sub("\ufffd", line))  # the line keeps its length
    start = 0
    while start < len(line):
        is_last = len(line) - start <= WINDOW
        for length in _lengths(readable[start : start + WINDOW], code, is_last):
            yield line[start : start + length]
            start += length


def _lengths(window: str, code: str, is_last: bool) -> list[int]:
    """The lengths of the sentences of a window that do not depend on the text behind it; at least one."""
    lengths = [len(sentence) for sentence in _cut(code, window)]
    if is_last:
        return lengths
    end = len(window)
    while lengths and end > WINDOW - LOOK_AHEAD:
        end -= lengths.pop()
    return lengths or [_last_break(window)]


def _last_break(window: str) -> int:
    """Where to cut a sentence that is longer than a window: after the last space of its second half, if any."""
    for end in range(len(window), len(window) // 2, -1):
        if window[end - 1].isspace():
            return end
    return len(window)


def _cut(code: str, text: str) -> list[str]:
    try:
        sentences = [sentence for sentence in sentencex.segment(code, text) if sentence]
    except BaseException as error:
        # A panic in Rust derives from BaseException and has no importable class. It must not end the worker, and then
        # each further worker that gets the document: the text stays one sentence.
        if type(error).__name__ == "PanicException":
            return [text]
        raise
    if "".join(sentences) != text:  # the library may have changed a character
        return [text]
    return mend_cuts(sentences, code)


@functools.lru_cache(maxsize=256)
def _sentencex_code(language: str) -> str:
    primary = re.split("[-_]", language.strip().lower(), maxsplit=1)[0]
    return _TWO_LETTERS.get(primary, primary) if primary.isascii() else "en"


class _Lists(NamedTuple):
    """The abbreviations of a language as regular expressions; all but `ends` match at the end of a text."""

    inside: re.Pattern[str]
    number: re.Pattern[str]
    lower: re.Pattern[str]
    parts: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]  # halves of abbreviations that contain a space
    ends: re.Pattern[str]  # with the white space behind it


def mend_cuts(sentences: Sequence[str], code: str) -> list[str]:
    """Join sentences that were cut after an abbreviation, and cut after "etc." where a capital follows. The joined text
    stays the same. `code`: ISO 639-1; for an unknown language only titles count as abbreviations.

        "It fell approx. " "5 mm."   ->   "It fell approx. 5 mm."
        "Rain etc. Snow falls."      ->   "Rain etc. " "Snow falls."
    """
    lists = _lists(code)
    mended: list[str] = []
    for sentence in sentences:
        if mended and _continues(mended[-1], sentence, lists):
            mended[-1] += sentence
        else:
            mended.append(sentence)
    return [part for sentence in mended for part in _cut_behind(sentence, lists.ends)]


def _continues(left: str, right: str, lists: _Lists) -> bool:
    """Whether the second text goes on with the sentence of the first."""
    end = left[-_LONGEST:].rstrip()
    if not end.endswith("."):
        return False
    if end[-1] == left[-1]:
        return _is_inside_word(end, right)
    start = right[:_LONGEST].lstrip(_OPENING)
    return bool(
        lists.inside.search(end)
        or (_NUMBER.match(start) and lists.number.search(end))
        or (start[:1].islower() and lists.lower.search(end))
        or any(before.search(end) and behind.match(right) for before, behind in lists.parts)
    )


def _is_inside_word(left: str, right: str) -> bool:
    """Whether a full stop without a space behind it stands in a name or an abbreviation (`Node.JS`, `a.C.`),
    and not between two sentences (`He said so.Then he left.`)."""
    if right[:1] in "-,;":
        return True
    before, word = _LAST_WORD.search(left), _WORD.match(right)
    if before is None or word is None:
        return False
    behind = right[word.end() : word.end() + 1]
    if not word[0][0].isupper():  # a small letter, or a script without capitals
        return word[0][0].islower() or behind == "."
    is_address = any(mark in before[1] for mark in "./@")
    is_sentence = word[0].istitle() and len(before[2]) > 1 and behind in (" ", ",", "")
    return word[0].isascii() and before[2].isascii() and (is_address or not is_sentence)


def _cut_behind(sentence: str, ends: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in ends.finditer(sentence):
        if sentence[match.end() : match.end() + 2].lstrip(_OPENING)[:1].isupper():
            yield sentence[start : match.end()]
            start = match.end()
    yield sentence[start:]


@functools.lru_cache(maxsize=64)
def _lists(code: str) -> _Lists:
    languages = _data()
    words = {kind: languages.get(code, {}).get(kind, "").split() for kind in ("inside", "number", "lower", "ends")}
    words["inside"] += languages["common"]["inside"].split()
    parts = [
        (name[: tilde + 1].rstrip("~"), name[tilde + 1 :].lstrip("~"))
        for name in words["inside"] + words["ends"]
        for tilde in (match.start() for match in re.finditer("~", name))
    ]
    return _Lists(
        inside=re.compile(f"{_any(words['inside'])}$"),
        number=re.compile(f"{_any(words['number'])}$"),
        lower=re.compile(f"{_any(words['lower'])}$"),
        parts=tuple((re.compile(f"{_any([before])}$"), re.compile(_spelt(behind))) for before, behind in parts),
        ends=re.compile(rf"{_any(words['ends'])}\s+"),
    )


@functools.cache
def _data() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("worker.text").joinpath("abbreviations.toml").read_text(encoding="utf-8"))


def _any(names: Sequence[str]) -> str:
    """A regular expression for any of the names, at the beginning of a word; without names it matches nothing."""
    return rf"{_WORD_BEGINS}(?:{'|'.join(map(_spelt, names))})" if names else r"(?!)"


def _spelt(name: str) -> str:
    """A regular expression for a name, with a small or a capital first letter."""
    first = re.escape(name[0]) if name[0].isupper() else f"[{name[0]}{name[0].upper()}]"
    return first + re.escape(name[1:]).replace(r"\~", r"\s?").replace("~", r"\s?")
