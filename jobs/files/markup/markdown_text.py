r"""Markdown: .md, .markdown, by the blocks of CommonMark and the tables of GitHub.

markdown-it-py says which lines a block has and what text they make; here the text is found again in those lines.

    > A paragraph that goes on        the unit "A paragraph that goes on over two lines", whose place in the file
    > over two lines                  reaches from its first word to its last

A translation is written on one line. Front matter, code, HTML blocks, definitions of links stay as they are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from jobs.files.markup.encodings import decoded, encoded, is_broken, within
from jobs.files.markup.places import Fill, Place, Render, rewritten, units_of
from jobs.files.translatable import Markup, TranslatableFile, Unit
from jobs.files.words import has_word

_LINE = re.compile(r"([^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_FRONT_MATTER = re.compile(r"(?:---|\+\+\+)[ \t]*+$")
# Lines within paragraphs that extensions give a meaning: directives and labels of MyST, alerts of GitHub, templates,
# formulas, comments.
_KEPT_LINE = re.compile(r":{3,}.*|!!!.*|\[![A-Z]+\]|\([\w-]+\)=|\{[%{#].*[%}#]\}|\$\$.*\$\$|<!--.*-->")
_FORMULA = "$$"
_HEAD = re.compile(r"(?:\[\^[^\]\s]+\]:|\[[ xX]\])[ \t]++")  # of a footnote, of an item of a task list
_HARD_BREAK = re.compile(r"(?:  +|\\)\Z")
_STARTS_BLOCK = re.compile(r"(?=[#>]|[-+*](?:\s|\Z)|```|~~~|[=_-]+\s*\Z|:{3}|[|])")
_NUMBER = re.compile(r"\d{1,9}(?=[.)](?:\s|\Z))")
_BARE_BAR = re.compile(r"(?<!\\)((?:\\\\)*)\|")
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]")  # Chinese, Japanese


class MarkdownText:
    """The format."""

    name = "markdown"
    suffixes: tuple[str, ...] = (".md", ".markdown")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """Paragraphs, headings, items, cells. Raises CorpusError for bytes that would not come back."""
        text, encoding = decoded(content, None)
        return MarkdownFile(text, encoding, list(_places(text)))


FORMAT = MarkdownText()


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A file that was read."""

    text: str
    encoding: str
    places: Sequence[Place]

    @property
    def units(self) -> Sequence[Unit]:
        return units_of(self.places, lambda name, place: Unit(name=name, text=place.text, markup=Markup.MD))

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts. (It does not say its language.)"""
        others = [None if text is None else within(text, self.encoding) for text in texts]
        return encoded(rewritten(self.text, self.places, others), self.encoding)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a block without what stands around its text: indentation, `>`, blanks."""

    text: str
    start: int  # in the file
    ends_hard: bool  # with a line break that readers see

    @property
    def stop(self) -> int:
        return self.start + len(self.text)


def _places(text: str) -> Iterator[Place]:
    lines = [(found.start(1), found[1]) for found in _LINE.finditer(text)]
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    first = _lines_of_front_matter(lines)
    hidden = "\n" * first + text[lines[first][0] :] if first else text.removeprefix("\ufeff")
    before: Token | None = None
    cells: dict[int, int] = {}  # of a row, where the last cell ended
    for token in parser.parse(hidden):
        if token.type == "inline" and token.map and before is not None:
            begin, end = token.map
            if before.type in ("td_open", "th_open"):
                yield from _cell(token.content, begin, lines[begin], cells)
            elif before.markup.startswith("#"):
                yield from _heading(token.content, before.markup, lines[begin])
            else:
                yield from _paragraph(token.content.split("\n"), lines[begin:end])
        before = token


def _lines_of_front_matter(lines: Sequence[tuple[int, str]]) -> int:
    opening = lines[0][1].removeprefix("\ufeff")
    if _FRONT_MATTER.match(opening):
        for number, (_, line) in enumerate(lines[1:], 1):
            if line.rstrip() == opening.rstrip():
                return min(number + 1, len(lines) - 1)
    return 0


def _cell(content: str, row: int, line: tuple[int, str], cells: dict[int, int]) -> Iterator[Place]:
    written = content.replace("|", r"\|")
    column = line[1].find(written, cells.get(row, 0))
    if column < 0 or not written:
        return
    cells[row] = column + len(written)
    yield from _place([_Line(written, line[0] + column, False)], _in_a_cell)


def _heading(content: str, markup: str, line: tuple[int, str]) -> Iterator[Place]:
    column = line[1].find(content, line[1].find(markup) + len(markup))
    if column >= 0:
        yield from _place([_Line(content, line[0] + column, False)], _on_one_line)


def _paragraph(contents: Sequence[str], lines: Sequence[tuple[int, str]]) -> Iterator[Place]:
    """The texts of a paragraph: it is cut at hard breaks and at lines that are kept."""
    part: list[_Line] = []
    in_formula = False
    for content, (start, line) in zip(contents, lines, strict=False):
        stripped = content.strip()
        column = len(line.rstrip()) - len(stripped)
        is_kept = in_formula or not line.rstrip().endswith(stripped) or _KEPT_LINE.fullmatch(stripped) is not None
        if stripped.count(_FORMULA) % 2:
            in_formula, is_kept = not in_formula, True
        if is_kept:
            yield from _place(part, _at_the_start_of_a_block)
            part = []
            continue
        ends_hard = _HARD_BREAK.search(content) is not None
        text = stripped.removesuffix("\\") if ends_hard else stripped
        if not part and (head := _HEAD.match(text)):
            text, column = text[head.end() :], column + head.end()
        part.append(_Line(text, start + column, ends_hard))
        if ends_hard:
            yield from _place(part, _at_the_start_of_a_block)
            part = []
    yield from _place(part, _at_the_start_of_a_block)


def _place(lines: Sequence[_Line], fill: Fill) -> Iterator[Place]:
    text = _joined([line.text for line in lines])
    if has_word(text) and not is_broken(text):
        yield Place(lines[0].start, lines[-1].stop, text, fill)


def _joined(lines: Sequence[str]) -> str:
    pieces: list[str] = []
    for line in lines:
        is_dense = pieces and line and all(map(_WITHOUT_SPACES.match, (pieces[-1][-1:], line[0])))
        pieces += [line] if is_dense or not pieces else [" ", line]
    return "".join(pieces)


def _on_one_line(text: str, render: Render) -> str:
    return " ".join(text.split("\n")).strip()


def _in_a_cell(text: str, render: Render) -> str:
    return _BARE_BAR.sub(r"\1\\|", _on_one_line(text, render))


def _at_the_start_of_a_block(text: str, render: Render) -> str:
    """On one line that is read as a paragraph, also where it begins like a list or a heading."""
    line = _on_one_line(text, render)
    if number := _NUMBER.match(line):
        return f"{number[0]}\\{line[number.end() :]}"
    return "\\" + line if _STARTS_BLOCK.match(line) else line
