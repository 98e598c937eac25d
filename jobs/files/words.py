r"""Whether a text has a word, that is, whether there is anything to translate.

    "Open", "打", "2nd"                                    do
    "12", "A1", "x-12", "2026-01-02T10:00Z", "%d"          no two letters of a script with capitals stand together
    "#ffe0b0", "3f2a9c41", "on_success", "runAll()"        codes that stand alone
    "report.pdf", "org.example.name"                       names of files, hosts and keys that stand alone

Knows: letters. Does not know: formats, tags, placeholders.
"""

import re

_LETTERS = re.compile(r"[^\W\d_]{2}")
_LETTER = re.compile(r"[^\W\d_]")
# ASCII alone: words of other scripts are written with a full stop, an underscore or a capital within, too.
_CODE = re.compile(
    r"#[0-9A-Fa-f]{3,8}|"  # a colour
    r"(?=[a-f]*+\d)(?=\d*+[a-f])[0-9a-f]{8,}|"  # a digest
    r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|"  # a UUID
    r"[A-Za-z0-9_]*[A-Za-z0-9]_[A-Za-z0-9][A-Za-z0-9_]*|"  # snake_case
    r"[a-z][a-z0-9]*+[A-Z][A-Za-z0-9]*|"  # camelCase, iPhone
    r"[A-Za-z_$][\w$]*+(?>(?:\.[A-Za-z_$][\w$]*+)*)\(\)|"  # a call
    r"[A-Za-z0-9][\w-]*(?:\.[\w-]+){2,}|"  # a key, a host
    r"[A-Za-z0-9][\w-]*\.[a-z][a-z0-9]{1,4}",  # a file
    re.ASCII,
)


def has_word(text: str) -> bool:
    """Of a text without tags. A letter alone is a word in scripts without capitals, such as Chinese."""
    if _LETTERS.search(text) is None:
        return any(not (letter.isupper() or letter.islower()) for letter in _LETTER.findall(text))
    return _CODE.fullmatch(text.strip()) is None
