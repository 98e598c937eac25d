"""Texts of documents as HTML: control characters as visible marks, and what was searched for marked.

A text may hold anything; each character of it is escaped here, and none becomes a part of the page.
"""

import re
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup, escape

from jobs.store.report.documents.listed_documents import ascii_lower
from jobs.web.document_view.aligned_text import Word

# As in `jobs.text.formatting`, but a tab and a newline stay what they are; a zero-width space and the like too.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_CONTROLS = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI"),
    *("DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
_SHORT = {
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u2028": "LS",
    "\u2029": "PS",
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
    "\u200b": "ZWSP",
    "\u2060": "WJ",
    "\u00ad": "SHY",
    "\ufeff": "BOM",
}


def marked(text: str, search: str = "") -> Markup:
    """The text as HTML; with `search`, each place where it has that is a `<mark>`, whatever the case of A to Z."""
    if not search:
        return _with_marks(text)
    lowered, wanted = ascii_lower(text), ascii_lower(search)
    parts, at = [], 0
    while (found := lowered.find(wanted, at)) >= 0:
        end = found + len(search)
        parts += [_with_marks(text[at:found]), Markup("<mark>{}</mark>").format(_with_marks(text[found:end]))]
        at = end
    return Markup("").join([*parts, _with_marks(text[at:])])


def with_words(text: str, words: Sequence[Word]) -> Markup:
    """The text as HTML, with an element for each of its words. A page's script shows which belong together
    (aligned.js); the first word of a text can be reached by keyboard, and from it the others."""
    parts, at = [], 0
    for number, word in enumerate(words):
        element = Markup('<span class="word" data-links="{}" tabindex="{}">{}</span>')
        links = " ".join(map(str, word.links))
        parts += [
            _with_marks(text[at : word.start]),
            element.format(links, -1 if number else 0, marked(text[word.start : word.stop])),
        ]
        at = word.stop
    return Markup("").join([*parts, _with_marks(text[at:])])


def _with_marks(text: str) -> Markup:
    parts, at = [], 0
    for match in _UNSEEN.finditer(text):
        parts += [escape(text[at : match.start()]), _mark(match[0])]
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _mark(sign: str) -> Markup:
    code = ord(sign)
    shown = _CONTROLS[code] if code < 0x20 else _SHORT.get(sign, f"{code:02X}")
    name = unicodedata.name(sign, "") or "control character"
    return Markup('<span class="unseen" title="{}">{}</span>').format(f"U+{code:04X} {name.lower()}", shown)
