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
# https://encoding.spec.whatwg.org/#names-and-labels: what a page calls so is another encoding, or Python knows it by
# another name.
_MEANT = {
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "us-ascii", "ascii", "csisolatin1"), "cp1252"),
    **dict.fromkeys(("iso-8859-9", "iso8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("iso-8859-11", "iso8859-11", "tis-620", "windows-874", "dos-874"), "cp874"),
    **dict.fromkeys(("iso-8859-8-i", "logical", "visual"), "iso8859-8"),
    **dict.fromkeys(("x-sjis", "ms_kanji", "csshiftjis"), "shift_jis"),
    **dict.fromkeys(("windows-31j", "ms932"), "cp932"),
    **dict.fromkeys(("x-gbk", "chinese", "csgb2312", "gb_2312-80"), "gbk"),
    **dict.fromkeys(("cn-big5", "csbig5", "x-x-big5"), "big5"),
    **dict.fromkeys(("ks_c_5601-1987", "ksc5601", "ksc_5601", "korean", "windows-949"), "euc_kr"),
    **dict.fromkeys(("x-euc-jp",), "euc_jp"),
    **dict.fromkeys(("x-mac-cyrillic", "x-mac-ukrainian"), "mac_cyrillic"),
    **dict.fromkeys(("koi", "koi8", "koi8_r", "cskoi8r"), "koi8-r"),
    **dict.fromkeys(("unicode-1-1-utf-8", "utf-16", "unicode", "ucs-2"), "utf-8"),  # of a page that says it in ASCII
}
# What browsers read these as has more characters, which are looked for where the encoding itself lacks one.
_WIDER = {
    "shift_jis": ("cp932",),
    "gb2312": ("gbk", "gb18030"),
    "gbk": ("gb18030",),
    "big5": ("big5hkscs",),
    "euc_kr": ("cp949",),
}
# Python writes these as other characters: the yen as a backslash.
_UNLIKE = {
    "shift_jis": re.compile("[\u00a5\u203e]"),
    "euc_jp": re.compile("[\u00a5\u203e]"),
    "cp932": re.compile("[\u00a2\u00a3\u00ac\u2016\u2212\u301c]"),
    "euc_kr": re.compile("\u3164"),
}
_FEW = 20  # letters that say nothing
_SURROGATES = re.compile("[\ud800-\udfff]")


def decoded(content: bytes, declared: str | None) -> tuple[str, str]:
    """The text, with its byte order mark if it has one, and the name of its encoding: by the mark, else `declared`,
    else UTF-8 where the bytes are such, else windows-1252. A byte that the encoding does not have is a surrogate of the
    text (PEP 383). Raises CorpusError for bytes that would not come back."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), None) or known(declared)
    is_guess = encoding is None and not declared and not _is_utf8(content)
    if encoding is None:
        encoding = "cp1252" if is_guess else "utf-8"
    text = _read(content, encoding)
    if is_guess and (text is None or not _looks_western(text)):
        raise CorpusError("the bytes of the file are neither UTF-8 nor windows-1252; save it as UTF-8")
    if text is None or is_broken(text):
        for wider in _WIDER.get(encoding, ()):
            if (found := _read(content, wider)) is not None and not is_broken(found):
                return found, wider
    if text is None:
        raise CorpusError(f"the bytes of the file are not {encoding}; save it as UTF-8")
    return text, encoding


def encoded(text: str, encoding: str) -> bytes:
    """The bytes of a text of `decoded`. Raises UnicodeEncodeError for a character that the encoding lacks."""
    if (other := _unlike(encoding, text)) is not None:
        raise UnicodeEncodeError(encoding, text, other.start(), other.end(), "it would be another character")
    return text.encode(encoding, "surrogateescape")


def within(text: str, encoding: str) -> str:
    """A text whose characters the encoding has: the others are numeric references (`&#8364;`)."""
    if encoding == "utf-8":
        return text
    if encoding in _UNLIKE:
        text = _UNLIKE[encoding].sub(lambda found: f"&#{ord(found[0])};", text)
    return text.encode(encoding, "xmlcharrefreplace").decode(encoding)


def is_broken(text: str) -> bool:
    """Whether bytes of the text had no meaning in the file's encoding."""
    return _SURROGATES.search(text) is not None


def known(declared: str | None) -> str | None:
    """Python's name of the encoding that a file declares; None for what is none of a page."""
    if declared is None:
        return None
    name = _MEANT.get(declared.lower(), declared.lower())
    if name == declared.lower() and _ENCODINGS.fullmatch(name) is None:
        return None
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def _read(content: bytes, encoding: str) -> str | None:
    """The text; None where its bytes would not come back."""
    try:
        text = content.decode(encoding, "surrogateescape")
        return text if encoded(text, encoding) == content else None
    except UnicodeError:
        return None


def _unlike(encoding: str, text: str) -> re.Match[str] | None:
    return _UNLIKE[encoding].search(text) if encoding in _UNLIKE else None


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
