"""The text of a file and the encoding that gives its bytes again.

Knows: byte order marks, names of encodings. Does not know: where a format declares its encoding.
"""

import codecs
import re
import string

from jobs.errors import CorpusError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The encodings of the WHATWG's standard that Python has. Others of Python's are none of a page (`punycode`, `idna`).
_ENCODINGS = re.compile(
    r"utf-?8|utf-?16-?[lb]e|(?:iso|windows|cp|ibm)[-_]?[\d-]+|koi8-[ru]|gb2312|gbk|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr)|"
    r"shift[-_]jis|sjis|iso-2022-jp|macintosh|(?:us-)?ascii|latin-?\d",
    re.IGNORECASE,
)
# https://encoding.spec.whatwg.org/#names-and-labels: what a page calls so is windows-1252.
_MEANT = {"iso-8859-1": "cp1252", "iso8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252"}
_FEW = 20  # letters that say nothing
_SURROGATES = re.compile("[\ud800-\udfff]")


def decoded(content: bytes, declared: str | None) -> tuple[str, str]:
    """The text, with its byte order mark if it has one, and the name of its encoding: by the mark, else `declared`,
    else UTF-8 where the bytes are such, else windows-1252. A byte that the encoding does not have is a surrogate of the
    text (PEP 383). Raises CorpusError for bytes that would not come back."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), None) or _known(declared)
    is_guess = encoding is None and not declared and not _is_utf8(content)
    if encoding is None:
        encoding = "cp1252" if is_guess else "utf-8"
    try:
        text = content.decode(encoding, "surrogateescape")
        comes_back = encoded(text, encoding) == content
    except UnicodeError:
        comes_back = False
    if is_guess and not (comes_back and _looks_western(text)):
        raise CorpusError("the bytes of the file are neither UTF-8 nor windows-1252; save it as UTF-8")
    if not comes_back:
        raise CorpusError(f"the bytes of the file are not {encoding}; save it as UTF-8")
    return text, encoding


def encoded(text: str, encoding: str) -> bytes:
    """The bytes of a text of `decoded`."""
    return text.encode(encoding, "surrogateescape")


def within(text: str, encoding: str) -> str:
    """A text whose characters the encoding has: the others are numeric references (`&#8364;`)."""
    return text if encoding == "utf-8" else text.encode(encoding, "xmlcharrefreplace").decode(encoding)


def is_broken(text: str) -> bool:
    """Whether bytes of the text had no meaning in the file's encoding."""
    return _SURROGATES.search(text) is not None


def _known(declared: str | None) -> str | None:
    if declared is None or _ENCODINGS.fullmatch(declared) is None:
        return None
    name = _MEANT.get(declared.lower(), declared.lower())
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def _looks_western(text: str) -> bool:
    """Whether most letters are ASCII, as in all languages that windows-1252 is for. Of a Russian text in windows-1251
    none is."""
    ascii_letters = sum(map(text.count, string.ascii_letters))
    return sum(map(str.isalpha, text)) - ascii_letters <= max(ascii_letters, _FEW)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
