"""A document as a sequence of spans: sentences to translate, and the text between them.

Knows: where a line and a sentence end. Does not know: tokens, models.
Marian models are trained on sentences, so a sentence is the unit of translation. Everything else (white space,
line breaks, sentences without a letter) passes through unchanged: models hallucinate on `" "` and `"-"`.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import sentencex

from worker.text.abbreviations import mend_cuts

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


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a document. The texts of all its spans, joined, are the document."""

    text: str
    translatable: bool  # a sentence with at least one letter
    letterless: bool = False  # a sentence of digits, punctuation, symbols

    @property
    def is_gap(self) -> bool:
        """Whether the span is white space between sentences."""
        return not self.translatable and not self.letterless


def segment(text: str, language: str) -> list[Span]:
    r"""Cut a document at line breaks and between sentences.

        "Hi.  How are you?\n- 42 -\n"   ->   Hi.  "  "  How are you?  "\n"  - 42 -  "\n"
                                                                        letterless

    `language`: the language of the text, as `en`, `eng`, `en-GB`, `zh_Hans`; an unknown one gets the English rules.
    """
    code = _sentencex_code(language)
    spans: list[Span] = []
    gap = 0  # start of the white space before the next sentence
    end = 0
    for line in text.splitlines(keepends=True):
        for sentence in _sentences(line, code):
            start, end = end, end + len(sentence)
            stripped = sentence.strip()
            if not stripped:
                continue
            first = start + len(sentence) - len(sentence.lstrip())
            if first > gap:
                spans.append(Span(text[gap:first], translatable=False))
            has_letter = any(map(str.isalpha, stripped))  # isalpha: the Unicode categories L*
            spans.append(Span(stripped, translatable=has_letter, letterless=not has_letter))
            gap = first + len(stripped)
    if gap < len(text):
        spans.append(Span(text[gap:], translatable=False))
    return spans


def _sentences(line: str, code: str) -> Iterator[str]:
    """Consecutive slices of a line, white space included; joined, they are the line."""
    if line.isspace():
        yield line
        return
    readable = _WIDE_SPACE_BEFORE_STOP.sub(" ", _SURROGATE.sub("\ufffd", line))  # one character for one
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
    if "".join(sentences) != text:  # no character is lost, whatever the library does
        return [text]
    return mend_cuts(sentences, code)


@functools.lru_cache(maxsize=256)
def _sentencex_code(language: str) -> str:
    primary = re.split("[-_]", language.strip().lower(), maxsplit=1)[0]
    return _TWO_LETTERS.get(primary, primary) if primary.isascii() else "en"
