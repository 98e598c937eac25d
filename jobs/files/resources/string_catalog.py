"""Xcode's string catalogs: .xcstrings, JSON with the texts of all languages.

    {"sourceLanguage" : "en", "strings" : {"Open" : {
      "comment" : "Of a button",                                               the context of the unit `Open`
      "localizations" : {
        "de" : {"stringUnit" : {"state" : "needs_review", "value" : "Auf"}},   what is written
        "en" : ...                                                             the source; without it the key is

A localization is written at its place in the order, as that of the source language is built: with its variations by
device, and with the plurals of the target language (`Open[one]`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.errors import CorpusError, SpecError
from jobs.files.edits import edited_bytes
from jobs.files.keyed_units import KeyNames, markup_of
from jobs.files.markup.encodings import decoded, is_broken
from jobs.files.markup.xml_file import indentation
from jobs.files.plural_table import wanted_categories
from jobs.files.resources.json_strings import JsonObject, objects_of, written
from jobs.files.translatable import TranslatableFile, Unit
from jobs.files.words import has_word

_WIDEST = 1000  # columns of an indentation
_KINDS = frozenset({"device", "stringUnit", "substitutions", "variations", "width"})  # keys that name no text


class StringCatalog:
    """The format."""

    name = "xcstrings"
    suffixes: tuple[str, ...] = (".xcstrings",)

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The texts of the source language that have none in the target language, or all `again`. Raises CorpusError
        for what is no JSON or no catalog."""
        text, encoding = decoded(content, "utf-8")
        if is_broken(text):
            raise CorpusError("bytes that are not UTF-8; save the file as UTF-8")
        objects = {found.path: found for found in objects_of(text)}
        catalog = json.loads(text.removeprefix("\ufeff"))
        strings = catalog.get("strings") if isinstance(catalog, dict) else None
        if not isinstance(strings, dict) or not isinstance(catalog.get("sourceLanguage"), str):
            raise CorpusError("no string catalog: it has no sourceLanguage and strings")
        target = target_language and target_language.replace("_", "-")
        names = KeyNames()
        found = [
            entry
            for key, about in strings.items()
            if isinstance(about, dict)
            and (entry := _entry(key, about, catalog["sourceLanguage"], target, names, again))
        ]
        return CatalogFile(text, encoding, objects, found, target)


FORMAT = StringCatalog()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A text of an entry."""

    text: str
    unit: Unit | None  # None without a word


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key, and what its localization is built like: an object whose texts are leaves."""

    key: str
    shape: dict[str, Any]
    leaves: Sequence[_Leaf]

    @property
    def units(self) -> list[Unit]:
        return [leaf.unit for leaf in self.leaves if leaf.unit is not None]


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A file that was read."""

    text: str
    encoding: str
    objects: Mapping[tuple[str, ...], JsonObject]
    entries: Sequence[_Entry]
    target_language: str | None
    units: Sequence[Unit] = field(init=False)
    colon: str = field(init=False)
    line_end: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "colon", " : " if '" : ' in self.text else ": ")
        object.__setattr__(self, "line_end", "\r\n" if "\r\n" in self.text else "\n")
        object.__setattr__(self, "units", [unit for entry in self.entries for unit in entry.units])

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with a localization of the target language in each entry that has a text. Raises SpecError where
        the target language was not given."""
        edits, at = [], 0
        for entry in self.entries:
            stop = at + len(entry.units)
            own = list(texts[at:stop])
            at = stop
            if any(
                text is not None and (language or text != unit.text)
                for text, unit in zip(own, entry.units, strict=True)
            ):
                edits.append(self._edit(entry, own))
        return edited_bytes(self.text, edits, self.encoding)

    def _edit(self, entry: _Entry, texts: list[str | None]) -> tuple[int, int, str]:
        if self.target_language is None:
            raise SpecError("a string catalog has the texts of several languages; say the target language of the file")
        filled = _filled(entry, texts)
        localizations = self.objects.get(("strings", entry.key, "localizations"))
        if localizations is None:
            return self._with_member(
                self.objects["strings", entry.key], "localizations", {self.target_language: filled}
            )
        return self._with_member(localizations, self.target_language, filled)

    def _with_member(self, around: JsonObject, key: str, value: object) -> tuple[int, int, str]:
        """An edit that puts a member at its place in the order of keys."""
        there = next((member for member in around.members if member.key == key), None)
        following = next((member for member in around.members if member.key > key), None)
        if around.members:
            line = indentation(self.text, around.members[0].start)
        else:
            line = self.line_end + " " * (self._indentation(around.start) + 2)
        separators = ("," if line else ", ", self.colon)
        shown = json.dumps(value, indent=2 if line else None, ensure_ascii=False, separators=separators)
        member = f"{written(key, ascii_only=False)}{self.colon}{shown}".replace("\n", line or self.line_end)
        if there is not None:
            return there.start, there.stop, member
        if following is not None:
            return following.start, following.start, f"{member},{line}"
        if around.members:
            return around.members[-1].stop, around.members[-1].stop, f",{line}{member}"
        closing = self.line_end + " " * self._indentation(around.start)
        return around.start + 1, around.stop - 1, f"{line}{member}{closing}"

    def _indentation(self, at: int) -> int:
        start = self.text.rfind("\n", max(0, at - _WIDEST), at) + 1
        return len(line) - len(line.lstrip(" ")) if start and (line := self.text[start:at]) else 0


def _entry(
    key: str, about: dict[str, Any], source: str, target: str | None, names: KeyNames, again: bool
) -> _Entry | None:
    localizations = about.get("localizations")
    localizations = localizations if isinstance(localizations, dict) else {}
    is_kept = about.get("shouldTranslate") is False or about.get("extractionState") == "stale" or target == source
    if is_kept or not key or (_is_translated(localizations.get(target)) and not again):
        return None
    shape = localizations.get(source)
    if not isinstance(shape, dict) or not shape:
        shape = {"stringUnit": {"value": key}}
    comment = about.get("comment")
    leaves: list[_Leaf] = []
    context = comment if isinstance(comment, str) and comment.strip() else None

    def shaped(value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            return value
        if "value" in value and isinstance(value["value"], str):
            text = value["value"]
            unit = None
            if has_word(text):
                unit = Unit(name=names.of(name), text=text, markup=markup_of(text), context=context)
            leaves.append(_Leaf(text, unit))
            return leaves[-1]
        return {
            inner: plural(each, name)
            if inner == "plural"
            else shaped(each, name if inner in _KINDS else f"{name}.{inner}")
            for inner, each in value.items()
        }

    def plural(forms: Any, name: str) -> Any:
        if not isinstance(forms, dict):
            return forms
        wanted = wanted_categories(forms, target) | ({"zero": "zero"} if "zero" in forms else {})
        return {category: shaped(forms[wanted[category]], f"{name}[{category}]") for category in sorted(wanted)}

    found = _Entry(key, shaped(shape, key), leaves)
    return found if found.units else None


def _is_translated(localization: object) -> bool:
    """Whether a text of it has a value that is more than a copy of the source."""
    if not isinstance(localization, dict):
        return False
    if isinstance(localization.get("value"), str):
        return bool(localization["value"].strip()) and localization.get("state") != "new"
    return any(_is_translated(each) for each in localization.values())


def _filled(entry: _Entry, texts: list[str | None]) -> dict[str, Any]:
    """The localization with these texts of the units; a unit without one keeps its own and is `new`."""
    rest = iter(texts)
    units = {id(leaf): next(rest) for leaf in entry.leaves if leaf.unit is not None}

    def filled(value: Any) -> Any:
        if isinstance(value, _Leaf):
            text = units.get(id(value), value.text)
            state = "translated" if value.unit is None else "new" if text is None else "needs_review"
            return {"state": state, "value": value.text if text is None else text}
        return {key: filled(each) for key, each in value.items()} if isinstance(value, dict) else value

    found = filled(entry.shape)
    assert isinstance(found, dict)
    return found
