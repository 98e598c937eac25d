r"""JSON of texts as translatable files: i18next and others, flat or nested, Chrome's messages.json, Flutter's .arb.

{"menu": {"open": "Open {name}"}}                             the unit `menu.open`
{"open": {"message": "Open", "description": "of a button"}}   the unit `open`, with its context, if all are such
{"open": "Open", "@open": {"description": "of a button"}}     the unit `open`, with its context (.arb)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.errors import CorpusError
from jobs.files.char_limit import char_limit
from jobs.files.edits import edited_bytes
from jobs.files.keyed_units import KeyNames, markup_of
from jobs.files.markup.encodings import decoded, is_broken
from jobs.files.resources.json_strings import JsonString, strings_of, written
from jobs.files.translatable import TranslatableFile, Unit
from jobs.files.words import has_word


@dataclass(slots=True)
class JsonTexts:
    """A format."""

    name: str
    suffixes: tuple[str, ...]

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The strings with a word; names are the keys, joined with dots. Raises CorpusError for what is no JSON or
        nested too deep."""
        text, encoding = decoded(content, "utf-8")
        if is_broken(text):
            line = next(number for number, each in enumerate(text.split("\n"), 1) if is_broken(each))
            raise CorpusError(f"line {line}: bytes that are not {encoding}; save the file as UTF-8")
        strings = list(strings_of(text))
        if self.name == "json" and text.lstrip("\ufeff \t\r\n").startswith("["):
            raise CorpusError(
                "a list, and a file of texts is an object of keys; if its elements are documents, write each on a line "
                "(.jsonl)"
            )
        return JsonFile(text, encoding, strings)


JSON = JsonTexts("json", (".json",))
ARB = JsonTexts("arb", (".arb",))


@dataclass(frozen=True, slots=True)
class _Text:
    unit: Unit
    string: JsonString


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A file that was read."""

    text: str
    encoding: str
    strings: Sequence[JsonString]
    texts: Sequence[_Text] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", list(self._texts()))

    @property
    def units(self) -> Sequence[Unit]:
        return [each.unit for each in self.texts]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts, and with this language as its `@@locale`, if it has one. Characters that are not
        ASCII are escaped where those of the file all are. Raises SpecError for half of a character."""
        ascii_only = self.text.isascii() and "\\u" in self.text
        others = [
            (each.string, text)
            for each, text in zip(self.texts, texts, strict=True)
            if text not in (None, each.unit.text)
        ]
        if language is not None:
            code = language.replace("-", "_")
            others += [(each, code) for each in self.strings if each.path == ("@@locale",) and each.text != code]
        edits = [(string.start, string.stop, written(text, ascii_only=ascii_only)) for string, text in others]
        return edited_bytes(self.text, edits, self.encoding)

    def _texts(self) -> Iterator[_Text]:
        by_path = {string.path: string.text for string in self.strings}
        messages = _has_messages(self.strings, by_path)
        names = KeyNames()
        for string in self.strings:
            path, context = string.path, None
            if messages:
                if path[1:] != ("message",):
                    continue
                path, context = path[:1], by_path.get((path[0], "description"))
            elif any(key.startswith(("@", "$")) for key in path):
                continue
            elif path:
                context = by_path.get((*path[:-1], f"@{path[-1]}", "description"))
            if not has_word(string.text):
                continue
            name = names.of(".".join(path) or "text")
            unit = Unit(
                name=name,
                text=string.text,
                markup=markup_of(string.text),
                context=context or None,
                max_chars=char_limit(context),
            )
            yield _Text(unit, string)


def _has_messages(strings: Sequence[JsonString], by_path: Mapping[tuple[str, ...], str]) -> bool:
    """Whether the file is Chrome's: each key stands for an object with a message."""
    first = {string.path[0] for string in strings if string.path}
    return bool(first) and all((key, "message") in by_path for key in first)
