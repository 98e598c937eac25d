"""The scalars of a YAML file with their positions, and a text as a scalar in the place of another one.

The events of PyYAML say where a scalar stands; nothing is constructed, so an alias is no more than its name, a tag
makes no object, and a bomb of aliases has the size that it has on the disk.

Knows: YAML 1.1 and 1.2. Does not know: which scalars are texts.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from jobs.errors import CorpusError

MAX_DEPTH = 100  # of mappings and sequences within each other, as in JSON

# libyaml's parser where PyYAML has it, else the one in Python, thirty times slower.
_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PROPERTIES = re.compile(r"(?>(?:[&!]\S*\s++(?>(?:#[^\r\n]*+\s++)*))*)")  # an anchor, a tag, a comment behind them
_STRING_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str"})
# What YAML 1.2 and other readers of 1.1 take for a number or a truth value, beside what PyYAML's resolver does.
_OTHER_TYPES = re.compile(r"[yYnN]|0o[0-7]+|[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+")
_BLANK_END = re.compile(r"(?:\r\n|[\r\n]|[ \t]++(?=[\r\n]|\Z))*+\Z")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_WORDS = re.compile(r"[^\W_][\w .]*")  # of a text that means the same to every reader, but for numbers and the like
_HEADER = re.compile(r"[|>]\d?(?P<chomping>[-+]?)\d?(?P<comment>[ \t]*+(?:#[^\r\n]*+)?)(?:\r\n|\r|\n)")
_SYMBOL = re.compile(r":[A-Za-z_]\w*+[?!]?")  # of Ruby, whose reader makes no text of it
_LEAST_WIDTH = 60  # columns of a folded text


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A value. `start` and `stop` are its positions, with quotation marks, without anchor and tag."""

    path: tuple[str, ...]  # keys, and the numbers of the elements of sequences, from 0
    text: str  # of a block without the line ends behind it
    is_string: bool
    start: int
    stop: int
    style: str  # "" of a plain one, else ', ", | or >
    ending: str  # the line ends behind a block
    key_start: int  # where the key stands, or the element of a sequence
    in_flow: bool  # between brackets or braces, where more signs have a meaning


@dataclass(frozen=True, slots=True)
class YamlKey:
    """A key of the mapping that is the root of a document."""

    text: str
    start: int
    stop: int


@dataclass(slots=True)
class _Open:
    """A mapping or a sequence that is not over yet."""

    is_mapping: bool
    in_flow: bool
    count: int = 0  # of keys and values, or of elements
    key: str = ""
    key_start: int = 0

    @property
    def is_key_next(self) -> bool:
        return self.is_mapping and self.count % 2 == 0


def scalars_of(text: str) -> Iterator[YamlScalar | YamlKey]:
    """The values that are scalars, and the keys of the root, in the order of the file. Raises CorpusError with the line
    of what is no YAML."""
    base = 1 if text.startswith("\ufeff") else 0
    around: list[_Open] = []
    in_key = 0  # mappings and sequences that are open within a key, which no path can name
    try:
        for event in yaml.parse(text[base:], Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                if len(around) == MAX_DEPTH:
                    line = event.start_mark.line + 1
                    raise CorpusError(f"line {line}: more than {MAX_DEPTH} mappings and lists within each other")
                in_key += in_key > 0 or bool(around and around[-1].is_key_next)
                around.append(_Open(isinstance(event, yaml.MappingStartEvent), bool(event.flow_style)))
            elif isinstance(event, yaml.CollectionEndEvent):
                around.pop()
                in_key -= in_key > 0
                _count(around, "?")
            elif isinstance(event, yaml.AliasEvent):
                _count(around, f"*{event.anchor}")
            elif isinstance(event, yaml.ScalarEvent):
                is_key = bool(around) and around[-1].is_key_next
                if not in_key and (not is_key or len(around) == 1):
                    yield from _scalar(text, event, base, around, is_key=is_key)
                if is_key:
                    around[-1].key_start = base + event.start_mark.index
                _count(around, event.value)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise CorpusError(f"line {line}: no YAML ({' '.join(filter(None, (error.context, error.problem)))})") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise CorpusError(f"line {line}: a character that YAML does not have ({error.reason})") from error


def line_end_of(text: str) -> str:
    """That of the first line."""
    found = _LINE_BREAK.search(text)
    return "\n" if found is None else found[0]


def written(text: str, like: YamlScalar, file: str, line_end: str) -> str:
    """A scalar for another text: of the style of the one in whose place it stands, if a reader finds the same text in
    it, else between quotation marks."""
    for candidate in _candidates(text, like, file[like.start : like.stop]):
        if _means(candidate, text, like):
            return candidate.replace("\n", line_end)
    return double_quoted(text + like.ending)


def double_quoted(text: str) -> str:
    """JSON's form, which is one of YAML's; what YAML does not print has an escape."""
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def is_string(text: str) -> bool:
    """Whether a plain scalar is a text, for readers of YAML 1.1 and of 1.2."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    patterns = [*resolvers.get(text[:1], ()), *resolvers.get(None, ())]
    others = _OTHER_TYPES.fullmatch(text) or _SYMBOL.fullmatch(text)
    return bool(text) and not others and not any(each.match(text) for _, each in patterns)


def _count(around: list[_Open], key: str) -> None:
    if around:
        if around[-1].is_key_next:
            around[-1].key = key
        around[-1].count += 1


def _scalar(
    text: str, event: yaml.ScalarEvent, base: int, around: list[_Open], *, is_key: bool
) -> Iterator[YamlScalar | YamlKey]:
    start = base + event.start_mark.index
    if event.tag is not None or event.anchor is not None:
        start = found.end() if (found := _PROPERTIES.match(text, start)) else start
    stop, style = base + event.end_mark.index, event.style or ""
    if style and text[start : start + 1] != style:
        return
    if is_key:
        yield YamlKey(event.value, start, stop)
        return
    value, ending = event.value, ""
    if style in ("|", ">"):
        stop = start + len(_BLANK_END.sub("", text[start:stop]))
        value = event.value.rstrip("\n")
        ending = event.value[len(value) :]
    is_text = event.tag in _STRING_TAGS and (bool(style) or event.tag is not None or is_string(value))
    path = tuple(each.key if each.is_mapping else str(each.count) for each in around)
    key_start = around[-1].key_start if around and around[-1].is_mapping else start
    in_flow = any(each.in_flow for each in around)
    yield YamlScalar(path, value, is_text, start, stop, style, ending, key_start, in_flow)


def _candidates(text: str, like: YamlScalar, raw: str) -> Iterator[str]:
    """With "\\n" for line ends."""
    if like.style == "":
        yield text
    elif like.style == "'":
        yield "'" + text.replace("'", "''") + "'"
    elif like.style in ("|", ">") and (header := _HEADER.match(raw)):
        ahead = f"{like.style}{header['chomping']}{header['comment']}\n"
        old = _LINE_BREAK.split(raw[header.end() :])
        indentation = min((len(line) - len(line.lstrip(" ")) for line in old if line.strip()), default=2)
        lines, between = text.split("\n"), "\n"
        if like.style == ">":
            width = max(_LEAST_WIDTH, *map(len, old)) - indentation
            lines, between = [_folded(line, width) for line in lines], "\n\n"
        yield ahead + textwrap.indent(between.join(lines), " " * indentation)


def _folded(line: str, width: int) -> str:
    """In lines that readers join with a blank; one of other blanks stays as it is."""
    if len(line) <= width or "  " in line or "\t" in line:
        return line
    return "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))


def _means(candidate: str, text: str, like: YamlScalar) -> bool:
    """Whether a reader finds this text in the place of the other one."""
    if like.style in ("|", ">"):
        content, values = f"- {candidate}\n", [0]
    elif like.in_flow:
        content, values = f"[{candidate},{{k: {candidate}}}]\n", [0, 2]
    elif like.path or like.style:
        content, values = f"k: {candidate} # a comment\n", [1]
    else:
        return False  # the root of a file, where --- and % have a meaning
    # Where a text has signs, readers differ: libyaml takes a tab within a plain scalar, and {a: 0?}.
    # PyYAML's own scanner does not.
    loaders = {_LOADER} if _WORDS.fullmatch(text) else {_LOADER, yaml.SafeLoader}
    return all(_finds(loader, content, values, text, like) for loader in loaders)


def _finds(loader: Any, content: str, values: Sequence[int], text: str, like: YamlScalar) -> bool:
    try:
        found = [event for event in yaml.parse(content, Loader=loader) if isinstance(event, yaml.ScalarEvent)]
    except (yaml.YAMLError, UnicodeError):
        return False
    ending = like.ending[:1]
    same = len(found) == values[-1] + 1 and all(found[at].value == text + ending for at in values)
    return same and (like.style != "" or (not (found[values[0]].style or found[values[0]].tag) and is_string(text)))


_ESCAPES = {sign: f"\\x{sign:02x}" for sign in range(0x7F, 0xA0)} | {
    sign: f"\\u{sign:04x}" for sign in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
}
