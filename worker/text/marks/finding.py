r"""
The marks of a text.

    "Hi <b>{name}</b>,<br>see &amp; go"   ->   <b> OPEN · {name} WORD · </b> CLOSE · <br> BREAK · &amp; CHARACTER

One pass over the text: what is not closed is looked for once, so a hostile text takes linear time.

Knows: how tags, entities, placeholders and addresses are written. Does not know: sentences, translations.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from html.entities import html5

from jobs.text.markup import Markup
from worker.text.marks import markdown
from worker.text.marks.elements import BLOCKS, CODE_OF_XML, LITERAL, LITERAL_BLOCKS, VOID, Ends
from worker.text.marks.mark import Kind, Mark, MarkRules
from worker.text.marks.message_format import message_marks

_TAG = r"""(?P<tag><(?P<slash>/?)(?P<name>[A-Za-z_][\w:.-]*+)(?:[\s/](?>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*))?>)"""
_OPAQUE = r"(?P<opaque><!--|<!\[CDATA\[|<\?|<![A-Za-z])"
_ENTITY = r"(?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
# A no-break space as it is; not within a number, or at punctuation and quotation marks, where languages differ.
_NO_BREAK = r"(?<![\u00ab\u2039])(?P<no_break>[\u00a0\u202f])(?![!?:;%\u00bb\u203a]|(?<=\d.)\d)"
_WRAP = r"(?P<wrap>[ \t\f]*+[\r\n][ \t\f\r\n]*+)"
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_XML_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b""")

_PRINTF = r"[-#0+']*(?:[0-9]{1,4}|\*)?(?:\.(?:[0-9]{1,4}|\*)?)?(?:hh|ll|[hlLqjzt])?[@diouxXeEfFgGcCsSpaA](?![A-Za-z])"
_WORDS = "|".join(
    [
        r"\{\{[^{}\n]{0,100}\}\}|\{%[^{}\n]{0,200}%\}",  # Mustache, Jinja
        r"[$%\#]\{[^{}\n]{1,100}\}",  # shells, JavaScript, Ruby
        r"\{[\w.-]{0,60}(?:\[[\w.-]{0,60}\]){0,4}(?:![rsa])?(?::[^{}\s]{0,30})?\}",  # Python, .NET, ICU
        r"\{\s{0,9}\w{1,60}\s{0,9},\s{0,9}(?:number|date|time|spellout|ordinal|duration)\b[^{}\n]{0,60}\}",  # ICU
        rf"%\([\w.-]{{1,60}}\){_PRINTF}|%[0-9]{{1,3}}\${_PRINTF}|%{_PRINTF}",  # Python, POSIX, C
        r"%[A-Za-z_]\w{0,60}%",  # Symfony, Windows
        r"%(?:[0-9]{1,3}\$)?#@\w{1,60}@",  # Apple's .stringsdict
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",  # an e-mail address
    ]
)
_ADDRESSES = "|".join(
    [
        r"\b(?:[A-Za-z][A-Za-z0-9+.-]{1,15}://|www\.)[^\s<>\"\u3000-\u303f\uff00-\uff0f\uff1a-\uff1f“”«»{}]+",
        r"\b[A-Za-z]:\\[^\s<>:\"|?*]+",  # a path of Windows
        r"(?<![\w/.~<>-])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}/?",  # of other systems
        r"(?<![\w/.@-])(?:[\w-][\w.-]{0,63}/){1,20}[\w-]{1,64}\.[A-Za-z]\w{0,5}\b",  # a relative one, with its suffix
    ]
)
_NUMBERED = r"(?P<numbered><(?P<of_end>/?)(?P<number>[0-9]{1,3})\s?(?P<void>/?)>)"  # of components: <0>, <1/>
_PLACEHOLDERS = rf"{_NUMBERED}|(?P<address>{_ADDRESSES})|(?P<percent>%%)|(?P<word>{_WORDS})|(?P<escape>\\[nrt])"

_WITHIN_WORDS = (Kind.WORD, Kind.CHARACTER, Kind.BLANK, Kind.WRAP)  # what a pattern of one's own may run across


# Seconds for a pattern of `rules.keep` and so many characters; one without nested repeats takes milliseconds for them.
_LIMIT_S, _LIMITED_CHARACTERS = 2, 100_000


class EndlessPattern(Exception):
    """A pattern of `rules.keep` takes too long on a text."""

    def __init__(self, pattern: str, seconds: float) -> None:
        super().__init__(
            f"--keep {pattern!r} takes more than {seconds:.0f} s on this text: write it without a repeat within a "
            "repeat, such as (a+)+, and submit the text again"
        )


def find(text: str, rules: MarkRules) -> list[Mark]:
    """The marks of a text in their order, none within another; pairs are nested. Takes O(length), but for the time of
    `rules.keep`, which is limited. Raises EndlessPattern where it is over."""
    if not rules:
        return []
    found = list(_scan(text, rules))
    if rules.markup == Markup.MD:
        found = markdown.without_text(text, found)
    return _paired(_with_kept(text, found, rules))


def _scan(text: str, rules: MarkRules) -> Iterator[Mark]:
    pattern = _pattern(rules.markup, rules.placeholders)
    if pattern is None:
        return
    ends = Ends(text)
    at = 0
    for frame in [*(message_marks(text) if rules.placeholders else ()), Mark(len(text), len(text), Kind.BREAK)]:
        while at < frame.start and (match := pattern.search(text, at, frame.start)):
            mark = _mark(match, rules.markup, ends)
            if mark is not None:
                yield mark
            at = match.end() if mark is None else mark.stop
        if at <= frame.start < frame.stop:
            yield frame
            at = frame.stop


@lru_cache(maxsize=8)
def _pattern(markup: Markup, placeholders: bool) -> re.Pattern[str] | None:
    parts = []
    if markup == Markup.MD:
        parts += [markdown.CODE, markdown.AUTOLINK]
    if markup != Markup.NONE:
        parts += [_OPAQUE, _TAG]
        parts += [_ENTITY, _NO_BREAK]
    if markup == Markup.HTML:
        parts.append(_WRAP)
    if placeholders:
        parts.append(_PLACEHOLDERS)
    if markup == Markup.MD:
        parts.append(markdown.SIGNS)
    return re.compile("|".join(parts), re.MULTILINE) if parts else None


def _mark(found: re.Match[str], markup: Markup, ends: Ends) -> Mark | None:
    """What a match is; None: text after all. It ends behind the match where an element is a mark as a whole."""
    start, stop = found.span()
    group = found.lastgroup  # the outermost: it is closed last
    match group:
        case "word" | "autolink":
            return Mark(start, stop, Kind.WORD)
        case "percent":
            return Mark(start, stop, Kind.ALONE)
        case "escape":
            return Mark(start, stop, Kind.BREAK)
        case "address":
            return Mark(start, start + _address_length(found[0]), Kind.WORD)
        case "wrap":
            return Mark(start, stop, Kind.WRAP)
        case "no_break":
            return Mark(start, stop, Kind.BLANK)
        case "entity":
            return _of_entity(start, stop, found[0], markup)
        case "numbered":
            kind = Kind.WORD if found["void"] else Kind.CLOSE if found["of_end"] else Kind.OPEN
            return Mark(start, stop, kind, found["number"])
        case "opaque":
            end = ends.behind(_ENDS.get(found[0], ">"), stop)
            return None if end is None else Mark(start, end, Kind.ALONE)
        case "tag":
            return _of_tag(found, markup, ends)
    return markdown.mark(found, ends)


def _of_tag(match: re.Match[str], markup: Markup, ends: Ends) -> Mark:
    tag, name = match["tag"], match["name"]
    is_html = markup != Markup.XML
    name = name.lower() if is_html else name
    start, stop = match.span()
    if match["slash"]:
        return Mark(start, stop, Kind.BREAK if is_html and name in BLOCKS else Kind.CLOSE, name)
    if tag.endswith("/>") or (is_html and name in VOID):
        return Mark(start, stop, Kind.BREAK if is_html and name in BLOCKS else Kind.ALONE, name)
    is_literal = name in LITERAL or name in LITERAL_BLOCKS if is_html else name in CODE_OF_XML
    if is_literal or _UNTRANSLATED.search(tag):
        end = ends.of_element(name, stop)
        if end is not None:
            return Mark(start, end, Kind.BREAK if is_html and name in LITERAL_BLOCKS | BLOCKS else Kind.WORD, name)
    return Mark(start, stop, Kind.BREAK if is_html and name in BLOCKS else Kind.OPEN, name)


def _of_entity(start: int, stop: int, entity: str, markup: Markup) -> Mark | None:
    """A character, a blank, of XML a name that only its DTD knows, of Markdown a sign that would be one of its own."""
    if entity.startswith("&#") or markup == Markup.HTML:
        meant = html.unescape(entity)
        if meant == entity:
            return None
    elif markup == Markup.MD:
        if entity[1:] not in html5:
            return None
        meant = html5[entity[1:]]
    else:
        meant = _XML_ENTITIES.get(entity, "")
    if markup == Markup.MD and meant in markdown.SIGN_CHARACTERS:
        return Mark(start, stop, Kind.ALONE)
    if meant.isprintable() and meant and not meant.isspace():
        return Mark(start, stop, Kind.CHARACTER, meant)
    return Mark(start, stop, Kind.BLANK if meant.isspace() else Kind.ALONE)


def _address_length(address: str) -> int:
    """The length of an address without the punctuation behind it."""
    end = len(address)
    while end > 1 and address[end - 1] in ".,;:!?'*_)]":
        if address[end - 1] == ")" and "(" in address[:end]:
            break
        end -= 1
    return end


def _with_kept(text: str, found: Sequence[Mark], rules: MarkRules) -> list[Mark]:
    """The marks and what the patterns and terms of `rules` match, as words. A match that only words and characters are
    within replaces them; one that meets a tag is none."""
    marks = list(found)
    limit = _LIMIT_S * (1 + len(text) / _LIMITED_CHARACTERS)
    for pattern in rules.keep:
        try:
            # `concurrent`: other lanes run meanwhile.
            matches = pattern.finditer(text, timeout=limit, concurrent=True)
            kept = [Mark(match.start(), match.end(), Kind.WORD) for match in matches]
        except TimeoutError:
            raise EndlessPattern(pattern.pattern, limit) from None
        kept = [mark for mark in kept if mark.stop > mark.start]
        marks = list(_merged(marks, kept))
    if rules.terms is not None:
        kept = [Mark(match.start, match.stop, Kind.WORD) for match in rules.terms.find(text)]
        marks = list(_merged(marks, kept))
    return marks


def _merged(marks: Sequence[Mark], kept: Sequence[Mark]) -> Iterator[Mark]:
    at = 0
    for word in kept:
        while at < len(marks) and marks[at].stop <= word.start:
            yield marks[at]
            at += 1
        end = at
        while end < len(marks) and marks[end].start < word.stop:
            end += 1
        if all(
            word.start <= mark.start and mark.stop <= word.stop and mark.kind in _WITHIN_WORDS for mark in marks[at:end]
        ):
            yield word
            at = end
    yield from marks[at:]


def _paired(marks: Sequence[Mark]) -> list[Mark]:
    """Each beginning with its end; those that have none, or cross a pair, stand alone."""
    paired = list(marks)
    opened: list[int] = []
    names: Counter[str] = Counter()
    for index, mark in enumerate(marks):
        if mark.kind == Kind.OPEN:
            opened.append(index)
            names[mark.name] += 1
        elif mark.kind == Kind.CLOSE:
            if not names[mark.name]:
                paired[index] = replace(mark, kind=Kind.ALONE)
                continue
            while marks[last := opened.pop()].name != mark.name:
                names[marks[last].name] -= 1
                paired[last] = replace(marks[last], kind=Kind.ALONE)
            names[mark.name] -= 1
            paired[last] = replace(marks[last], partner=index)
            paired[index] = replace(mark, partner=last)
    for index in opened:
        paired[index] = replace(marks[index], kind=Kind.ALONE)
    return paired
