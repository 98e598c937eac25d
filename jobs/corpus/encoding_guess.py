"""In which encoding a line is probably written that is not UTF-8: a question for the user, never a decision.

Libraries that detect encodings want kilobytes; of a line they name the wrong one (charset-normalizer 3.4 takes
"Montréal" for cp1250, and Russian in KOI8-R for UTF-16). What is wanted here is the likely one of a few, by the letters
that it makes of the bytes.
"""

import re
from collections.abc import Iterator

from jobs.documents import quoted

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
    """What to do about a line that is not UTF-8: the encoding that it looks like and how it reads in it, if one is
    likely."""
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
