"""Elements of HTML by what they are in a text, and where an element ends."""

import re

# Where one begins or ends, a sentence ends (HTML Living Standard, 15.3: display: block, list-item, table-*; and br).
BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "button",
        "caption",
        "center",
        "col",
        "colgroup",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "frameset",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "link",
        "main",
        "menu",
        "meta",
        "nav",
        "ol",
        "optgroup",
        "option",
        "p",
        "search",
        "section",
        "select",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)  # without an end
LITERAL = frozenset(["code", "kbd", "samp", "tt", "var"])  # what is in them is no language
LITERAL_BLOCKS = frozenset(["math", "pre", "script", "style", "svg", "template", "textarea"])
CODE_OF_XML = frozenset(["bpt", "ept", "it", "ph", "ut"])  # XLIFF and TMX: what is in them is code of another format


class Ends:
    """Where in a text something ends. What is missing from one place on is missing behind it too, so it is looked for
    once: all questions together, asked in the order of the text, take O(length) for each different end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def behind(self, end: str, at: int) -> int | None:
        """Where the next `end` at or behind `at` ends; None: there is none."""
        if end in self._missing:
            return None
        found = self._text.find(end, at)
        if found < 0:
            self._missing.add(end)
            return None
        return found + len(end)

    def of_element(self, name: str, at: int) -> int | None:
        """Where the element `name`, whose content begins at `at`, ends; elements of its name within it are counted."""
        if name in self._missing:
            return None
        depth = 1
        for tag in re.compile(rf"<(/?){re.escape(name)}(?:[\s/][^<>]*)?>", re.IGNORECASE).finditer(self._text, at):
            depth += -1 if tag[1] else 0 if tag[0].endswith("/>") else 1
            if not depth:
                return tag.end()
        self._missing.add(name)
        return None
