"""Web pages: .html, .htm, .xhtml. All bytes outside of the translated texts stay, also those of broken markup.

A unit is the text of a block with its inline tags as they stand in the file, without tags around the whole of it:
of `<p><b>One</b></p>` it is `One`, of `<p>One <b>more</b></p>` `One <b>more</b>`. Units are also `<title>`, the
attributes that people see or hear, and descriptions for search engines and previews. What a page marks as not to be
translated is kept (`translate="no"`, https://html.spec.whatwg.org/#attr-translate; `class="notranslate"`), and so is
code.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jobs.files.markup.encodings import decoded, encoded, is_broken, known, within
from jobs.files.markup.places import Fill, Place, Render, numbered, rewritten, units_of
from jobs.files.markup.tags import HTML_TAG, Attribute, Kind, Token, attributes, html_tokens
from jobs.files.translatable import Markup, TranslatableFile, Unit
from jobs.files.words import has_word


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements within a sentence (https://html.spec.whatwg.org/#phrasing-content). Every other one ends a text.
_INLINE = _names(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math nobr q rb rp rt rtc "
    "ruby s samp small span strike strong sub sup time tt u var wbr"
)
_VOID = _names("area base basefont bgsound br col embed frame hr img input link meta param source track wbr")
_BLOCKS = _names(  # end a text also where code or what is not translated was never closed
    "article aside blockquote body dd details div dl dt figure footer form h1 h2 h3 h4 h5 h6 header hr html li main "
    "nav ol p pre section table td th tr ul"
)
_KEPT = _names("code kbd math pre samp tt var")
_ATTRIBUTES = _names("alt title aria-label aria-description aria-roledescription placeholder")
_OF_ELEMENTS = frozenset({("option", "label"), ("optgroup", "label"), ("track", "label"), ("table", "summary")})
_DESCRIPTIONS = _names("description og:title og:description twitter:title twitter:description")
_WORTH_A_LOOK = re.compile(
    r"\b(?:alt|title|aria-|placeholder|label|summary|content|value|translate|notranslate)", re.IGNORECASE
)
_DECLARED = re.compile(
    rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w-]+)|<meta[^>]*?charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE
)
_HEAD = 4096  # bytes in which a page says its encoding: browsers look at 1024
_BLANKS = re.compile(r"\s*+")


class HtmlPages:
    """The format."""

    name = "html"
    suffixes: tuple[str, ...] = (".html", ".htm", ".xhtml")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The texts of a page, however broken it is. Raises CorpusError for bytes that its encoding does not have and
        that would not come back."""
        found = _DECLARED.search(content, 0, _HEAD)
        declared = (found[1] or found[2]).decode() if found else None
        text, encoding = decoded(content, declared if known(declared) else None)
        reader = _Reader(text)
        reader.read()
        return HtmlPage(text, encoding, numbered(reader.places), reader.language)


FORMAT = HtmlPages()


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page that was read."""

    text: str
    encoding: str
    places: Sequence[Place]
    language: Sequence[Place]  # where <html> says it

    @property
    def units(self) -> Sequence[Unit]:
        return units_of(
            self.places,
            lambda name, place: Unit(name=name, text=place.text, markup=Markup.HTML, context=place.context),
        )

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The page with these texts, and the language at its `<html>`. Characters that its encoding does not have are
        written as references."""
        others = [None if text is None else within(text, self.encoding) for text in texts]
        places, new = [*self.places], others
        if language is not None:
            places, new = [*self.language, *self.places], [*[language] * len(self.language), *others]
        in_order = sorted(zip(places, new, strict=True), key=lambda pair: (pair[0].start, -pair[0].stop))
        written = rewritten(self.text, [place for place, _ in in_order], [other for _, other in in_order])
        return encoded(written, self.encoding)


@dataclass(slots=True)
class _Reader:
    """Reads a page from its start to its end."""

    text: str
    places: list[Place] = field(default_factory=list)
    language: list[Place] = field(default_factory=list)
    run: list[Token] = field(default_factory=list)  # of the block that is being read
    kept: set[int] = field(default_factory=set)  # where the tokens of the run start that are not translated
    keeps: str = ""  # the element that is being kept,
    depth: int = 0  # and how many of its name are open

    def read(self) -> None:
        head = self.text[:_HEAD].lower()
        for token in html_tokens(self.text, is_xml="<?xml" in head or "http://www.w3.org/1999/xhtml" in head):
            if self.keeps:
                self._keep(token)
            elif token.kind in (Kind.OPEN, Kind.EMPTY):
                self._open(token)
            elif token.kind is Kind.RAW:
                self._raw(token)
            elif token.kind is Kind.CLOSE and token.name not in _INLINE:
                self._end_of_block()
            else:
                self.run.append(token)
        self._end_of_block()

    def _open(self, token: Token) -> None:
        kept = token.name in _KEPT
        if _WORTH_A_LOOK.search(self.text, token.start + 1 + len(token.name), token.stop):
            found = list(attributes(self.text, token))
            kept = kept or _says_no(found)
            if not kept:
                self.places += _attribute_places(token.name, found, self.text)
        if token.name == "html" and not self.language:
            self.language = _language_places(token, self.text)
        if token.name not in _INLINE:
            self._end_of_block()
        else:
            self.run.append(token)
        if kept and token.kind is Kind.OPEN and token.name not in _VOID:
            self.keeps, self.depth = token.name, 1

    def _keep(self, token: Token) -> None:
        if token.name == self.keeps and token.kind in (Kind.OPEN, Kind.CLOSE):
            self.depth += 1 if token.kind is Kind.OPEN and token.name != "p" else -1 if token.kind is Kind.CLOSE else 0
        ends = self.depth == 0
        if self.keeps not in _INLINE or token.name in _BLOCKS:
            self._end_of_block()
        else:
            self.run.append(token)
            self.kept.add(token.start)
        if ends:
            self.keeps = ""

    def _raw(self, token: Token) -> None:
        """The content of an element that has no tags: of these, `<title>` is a text."""
        start, stop = _stripped(self.text, token.start, token.stop)
        text = self.text[start:stop]
        if token.name == "title" and _has_word(text) and not is_broken(text):
            self.places.append(Place(start, stop, text, lambda text, render: text, "title"))

    def _end_of_block(self) -> None:
        run, self.run = self.run, []
        kept, self.kept = self.kept, set()
        texts = [
            index
            for index, token in enumerate(run)
            if token.kind is Kind.TEXT and not self.text[token.start : token.stop].isspace()
        ]
        shown = [self.text[run[index].start : run[index].stop] for index in texts if run[index].start not in kept]
        if not _has_word("".join(shown)):
            return
        first, last = _with_partners(run, texts[0], texts[-1])
        start, stop = _stripped(self.text, run[first].start, run[last].stop)
        text = self.text[start:stop]
        if not is_broken(text):
            tags = [token for token in run[first : last + 1] if token.kind in (Kind.OPEN, Kind.EMPTY)]
            self.places.append(Place(start, stop, text, _with_attributes(self.text, tags)))


def _says_no(found: Sequence[Attribute]) -> bool:
    return any(
        (each.name == "translate" and each.value.strip().lower() == "no")
        or (each.name == "class" and "notranslate" in each.value.split())
        for each in found
    )


def _attribute_places(element: str, found: Sequence[Attribute], text: str) -> Iterator[Place]:
    values = {each.name: each.value.strip().lower() for each in found}
    for each in found:
        is_text = each.name in _ATTRIBUTES or (element, each.name) in _OF_ELEMENTS
        if element == "meta" and each.name == "content":
            is_text = (values.get("name") or values.get("property")) in _DESCRIPTIONS
        if element == "input" and each.name == "value":
            is_text = values.get("type") in ("button", "submit", "reset")
        if is_text and _has_word(each.value) and not is_broken(each.value):
            yield Place(each.start, each.stop, each.value, _quoted(each.quote), f"{element} {each.name}")


def _quoted(quote: str) -> Fill:
    def fill(text: str, render: Render) -> str:
        inside = text.replace(quote or '"', "&quot;" if quote != "'" else "&#39;")
        return inside if quote else f'"{inside}"'

    return fill


def _language_places(token: Token, text: str) -> list[Place]:
    found = [each for each in attributes(text, token) if each.name in ("lang", "xml:lang")]
    if found:
        return [
            Place(each.start, each.stop, each.value, _quoted(each.quote)) for each in found if each.quote or each.value
        ]
    at = token.start + len("<html")
    return [Place(at, at, "", lambda language, render: f' lang="{html.escape(language)}"')]


def _with_attributes(page: str, tags: Sequence[Token]) -> Fill:
    """A text with the tags of the page in it, in which attributes may have been translated: each takes the place of the
    tag that was."""

    def fill(text: str, render: Render) -> str:
        changed: dict[str, list[str]] = {}
        for tag in tags:
            changed.setdefault(page[tag.start : tag.stop], []).append(render(tag.start, tag.stop))
        for_each = {old: iter(new) for old, new in changed.items() if any(tag != old for tag in new)}
        if not for_each:
            return text
        return HTML_TAG.sub(lambda tag: next(for_each.get(tag[0], iter(())), tag[0]), text)

    return fill


def _with_partners(run: Sequence[Token], first: int, last: int) -> tuple[int, int]:
    """The part from `first` to `last`, and on to the tags that belong to tags within it."""
    partner: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for index, token in enumerate(run):
        if token.kind is Kind.OPEN and token.name not in _VOID:
            opened.setdefault(token.name, []).append(index)
        elif token.kind is Kind.CLOSE and opened.get(token.name):
            other = opened[token.name].pop()
            partner[index], partner[other] = other, index
    low, high = first, first  # tokens from low to before high have been looked at
    while low > first or high <= last:
        if low > first:
            low = index = low - 1
        else:
            index, high = high, high + 1
        other = partner.get(index, index)
        first, last = min(first, other), max(last, other)
    return first, last


def _stripped(text: str, start: int, stop: int) -> tuple[int, int]:
    part = text[start:stop]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _has_word(text: str) -> bool:
    return has_word(html.unescape(text) if "&" in text else text)
