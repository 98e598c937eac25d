"""Corpora in another encoding than UTF-8: named by `--encoding`, and read as UTF-8; which one a line looks like.

Knows: Python's codecs, and the letters of languages. Does not know: formats.
"""

import codecs
import io
import re
from collections.abc import Iterator
from encodings.aliases import aliases

from jobs.corpus.pieces import PieceBytes
from jobs.documents import quoted
from jobs.errors import SpecError, nearest

_CJK = "一-龥、。，；：？！「」『』（）《》“”・ー"
_CYRILLIC = "а-яА-ЯёіїєўЁ«»—–…„“"
_WORDS = "^(?![\\s\\S]*[а-я][А-Я])[\\s\\S]*[а-яё]{3}"  # Greek, read as Cyrillic, has capitals within words
# Encodings, the characters that most of a text in them is made of beyond ASCII, and what has to be in it. Korean comes
# before Chinese, and Japanese needs kana: the same bytes are rare characters in the other encodings.
_EXPECTED = (
    ("euc_jp", f"[ぁ-んァ-ヶ{_CJK}]", "[ぁ-んァ-ヶ]"),
    ("shift_jis", f"[ぁ-んァ-ヶ{_CJK}]", "[ぁ-んァ-ヶ]"),
    ("euc_kr", "[가-힣]", "[가-힣]"),
    ("gb2312", f"[{_CJK}]", "[一-龥]{2}"),
    ("big5", f"[{_CJK}]", "[一-龥]{2}"),
    ("cp1251", f"[{_CYRILLIC}]", _WORDS),
    ("koi8-r", f"[{_CYRILLIC}]", _WORDS),
    ("cp1253", "[α-ωά-ώ]", "[α-ωά-ώ]{3}"),
    ("cp1256", "[ء-ي،؛؟]", "[ء-ي]{3}"),
    ("cp1250", "[áčďéěíňóřšťúůýžąćęłńśźżöüőű]", "[łąť]"),
    ("cp1252", "[à-öø-ÿÀ-ÖØ-Þßœ’‘“”„–—…€«»°§¿¡£]", ""),
)
_SHARE = 0.75
_OPTIONS = {"gb2312": "gb18030"}  # which holds all of it
_WORD = re.compile(r"\w*[^\x00-\x7f]\w*")


def encoding_question(line: bytes) -> str:
    """What to do about a line that is not UTF-8: a question that names the encoding it looks like and how it reads
    in it, if one is likely; never a decision.

    Libraries that detect encodings want kilobytes; of a line they name the wrong one (charset-normalizer 3.4 takes
    "Montréal" for cp1250, and Russian in KOI8-R for UTF-16). What is wanted here is the likely one of a few, by the
    letters that it makes of the bytes.
    """
    found = next(_likely(line), None)
    if found is None:
        return "save the corpus as UTF-8, or name its encoding: --encoding NAME"
    name, text = found
    word = _WORD.search(text)
    label = re.sub("^cp(?=125)", "windows-", name)
    return f"it looks like {label} ({quoted(word[0] if word else '', 20)}): --encoding {name}?"


def _likely(line: bytes) -> Iterator[tuple[str, str]]:
    for name, expected, needed in _EXPECTED:
        try:
            text = line.decode(name)
        except UnicodeDecodeError:
            continue
        beyond = "".join(re.findall(r"[^\x00-\x7f]", text))
        if re.search(needed, text) and len(re.findall(expected, beyond)) >= _SHARE * len(beyond):
            yield _OPTIONS.get(name, name), text


# What stands for bytes that the encoding does not have. It is not UTF-8, so that the line with it is rejected.
UNDECODABLE = b"\xff\xfe\xff"
_SIGN = "\udcff"
# Codecs of Python that turn text into text, or bytes into what no file is written in.
_NO_ENCODINGS = frozenset({"idna", "punycode", "raw-unicode-escape", "raw_unicode_escape", "unicode-escape"})
_NO_ENCODINGS |= {"unicode_escape", "undefined", "mbcs", "oem", "utf-7"}


def encoding_named(name: str) -> str | None:
    """The encoding as Python names it; None for UTF-8, with a byte order mark or without. Raises SpecError for a name
    that is none."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):  # ValueError: a NUL in it
        found = None
    if found is None or not found._is_text_encoding or found.name in _NO_ENCODINGS:
        near = nearest(name.replace("-", "_"), sorted({*aliases, *aliases.values()}))
        meant = f"did you mean {near}?" if near else "some are cp1252, latin-1, shift_jis, gb18030, utf-16"
        raise SpecError(f"there is no encoding {quoted(name)}; {meant}")
    return None if found.name in ("utf-8", "utf-8-sig", "ascii") else found.name


class Utf8Bytes(PieceBytes):
    """The text of a stream in another encoding, in UTF-8. A byte order mark of UTF-16 or UTF-32 is not part of it."""

    def __init__(self, inner: io.BufferedReader, encoding: str) -> None:
        super().__init__(inner)
        self._decoder = codecs.getincrementaldecoder(encoding)("kvjobs.undecodable")
        self._has_ended = False

    def next_piece(self, wanted: int) -> bytes:
        text = ""
        while not text and not self._has_ended:
            piece = self.inner.read1(wanted)
            self._has_ended = not piece
            text = self._decoder.decode(piece, final=self._has_ended)
        return text.encode("utf-8", "kvjobs.undecodable")


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """The handler of both directions: a sign for bytes, which is then written as UNDECODABLE, as half of a surrogate
    pair is."""
    if isinstance(error, UnicodeDecodeError):
        return _SIGN, error.end
    assert isinstance(error, UnicodeEncodeError)
    return UNDECODABLE * (error.end - error.start), error.end


codecs.register_error("kvjobs.undecodable", _mark)
