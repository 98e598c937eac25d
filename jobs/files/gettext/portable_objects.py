r"""gettext's .po and .pot as translatable files.

`polib` writes a file anew (of 2,760 files of Python packages 36 came back byte for byte), so the positions of the
entries are used. The unit is msgid. Where there is a plural, each form of the target language is a unit: of msgid for
the form that stands for one thing, of msgid_plural for the others.

    #. shown while it copies      the context of the units 1[0] and 1[1]
    #, fuzzy                      set on what is written: gettext's tools show it as not yet reviewed
    msgid "%d file"
    msgid_plural "%d files"
    msgstr[0] "%d Datei"
    msgstr[1] "%d Dateien"
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jobs.documents import quoted
from jobs.errors import CorpusError, SpecError
from jobs.files.edits import edited
from jobs.files.gettext.entries import Entry, Message, entries_of
from jobs.files.gettext.header import fields_of, header_of, new_header, replaced
from jobs.files.gettext.plural_rules import PluralRule, parsed, rule_of
from jobs.files.gettext.strings import written
from jobs.files.keyed_units import markup_of
from jobs.files.markup.encodings import decoded, encoded, is_broken
from jobs.files.translatable import TranslatableFile, Unit

_CHARSET = re.compile(rb'"[^"\n]*?charset=([\w.:-]{1,40})', re.IGNORECASE)


class PortableObjects:
    """The format."""

    name = "po"
    suffixes: tuple[str, ...] = (".po", ".pot")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The messages without a translation, with `again` all; names are the numbers of the entries, with the form of
        a plural. The forms are those of the header, unless it is of another language than the target. Raises
        CorpusError for a file that gettext does not read either."""
        found = _CHARSET.search(content)
        declared = found[1].decode() if found else "utf-8"
        text, encoding = decoded(content, "utf-8" if declared.upper() == "CHARSET" else declared)
        if is_broken(text):
            line = next(number for number, each in enumerate(text.split("\n"), 1) if is_broken(each))
            raise CorpusError(f"line {line}: bytes that are not {encoding}, the encoding of the file; save it as UTF-8")
        entries = entries_of(text)
        return PoFile(text, encoding, entries, header_of(entries), again, target_language)


FORMAT = PortableObjects()


@dataclass(frozen=True, slots=True)
class _Slot:
    """A unit and where its translation goes."""

    unit: Unit
    entry: int
    form: int


@dataclass(frozen=True, slots=True)
class PoFile:
    """A file that was read."""

    text: str
    encoding: str
    entries: Sequence[Entry]
    header: Message | None
    again: bool
    target_language: str | None
    rule: PluralRule = field(init=False)
    slots: Sequence[_Slot] = field(init=False)
    line_end: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line_end", self._own_line_end())
        object.__setattr__(self, "rule", self._rule())
        object.__setattr__(self, "slots", list(self._slots()))

    @property
    def units(self) -> Sequence[Unit]:
        return [slot.unit for slot in self.slots]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these translations. With a language, which the header gets, a translation that equals its
        source is written, too. As `msgfmt --check` asks, a translation begins and ends with a line break where its
        source does. Raises SpecError for a character that the encoding of the file lacks."""
        by_entry: dict[int, dict[int, str]] = {}
        for slot, text in zip(self.slots, texts, strict=True):
            if text is not None and (language is not None or text != slot.unit.text):
                by_entry.setdefault(slot.entry, {})[slot.form] = _edges(text, slot.unit.text)
        # A new header comes first: where both stand at one position, the sorting keeps their order.
        edits = list(self._header_edits(language)) if by_entry or language is not None else []
        edits += [edit for number, forms in by_entry.items() for edit in self._edits(self.entries[number], forms)]
        return self._encoded(edited(self.text, edits))

    def _encoded(self, text: str) -> bytes:
        try:
            return encoded(text, self.encoding)
        except UnicodeEncodeError as error:
            raise SpecError(
                f"{self.encoding}, the encoding of the file, lacks {quoted(text[error.start : error.start + 1])}; "
                "convert the file to UTF-8 (msgconv --to-code=UTF-8)"
            ) from error

    def _rule(self) -> PluralRule:
        fields = fields_of(self.header)
        own, of_file = parsed(fields.get("Plural-Forms", "")), fields.get("Language", "")
        target = self.target_language
        if own is not None and (target is None or not of_file or _base(of_file) == _base(target)):
            return own
        return rule_of(target or of_file)

    def _slots(self) -> Iterator[_Slot]:
        for number, entry in enumerate(self.entries):
            one, many = entry.message("msgid"), entry.message("msgid_plural")
            assert one is not None
            if not one.text.strip() and many is None:
                continue  # the header, or blanks
            context = _context(entry)
            there = {message.form: message.text for message in entry.translations}
            for form in range(1 if many is None else self.rule.num_forms):
                if there.get(form) and not self.again:
                    continue
                text = one.text if many is None or form == self.rule.singular else many.text
                name = f"{number + 1}" if many is None else f"{number + 1}[{form}]"
                if text.strip():
                    yield _Slot(Unit(name=name, text=text, markup=markup_of(text), context=context), number, form)

    def _edits(self, entry: Entry, forms: dict[int, str]) -> Iterator[tuple[int, int, str]]:
        translations, line_end = entry.translations, self.line_end
        if entry.message("msgid_plural") is None:
            yield translations[0].start, translations[0].stop, written("msgstr", forms[0], line_end)
        else:
            there = {message.form: self.text[message.start : message.stop] for message in translations}
            blocks = [
                written(f"msgstr[{form}]", forms[form], line_end)
                if form in forms
                else there.get(form, f'msgstr[{form}] ""')
                for form in range(self.rule.num_forms)
            ]
            yield translations[0].start, translations[-1].stop, line_end.join(blocks)
        yield from self._fuzzy(entry)

    def _fuzzy(self, entry: Entry) -> Iterator[tuple[int, int, str]]:
        flags = [(at, comment) for at, comment in entry.comments if comment.startswith("#,")]
        if any("fuzzy" in re.split(r"[,\s]+", comment) for _, comment in flags):
            return
        if flags:
            at = flags[0][0] + len("#,")
            yield at, at, " fuzzy,"
        else:
            previous = [at for at, comment in entry.comments if comment.startswith("#|")]
            at = previous[0] if previous else entry.start
            yield at, at, f"#, fuzzy{self.line_end}"

    def _header_edits(self, language: str | None) -> Iterator[tuple[int, int, str]]:
        has = fields_of(self.header)
        wanted = {"Language": language.replace("-", "_")} if language is not None else {}
        if any(entry.message("msgid_plural") for entry in self.entries):
            wanted["Plural-Forms"] = self.rule.header
        if "charset=CHARSET" in has.get("Content-Type", ""):
            wanted["Content-Type"] = "text/plain; charset=UTF-8"
        if has.get("Content-Transfer-Encoding") == "ENCODING":
            wanted["Content-Transfer-Encoding"] = "8bit"
        wanted = {name: value for name, value in wanted.items() if has.get(name) != value}
        if self.header is None:
            at = next(
                (entry.comments[0][0] if entry.comments else entry.start for entry in self.entries), len(self.text)
            )
            yield at, at, new_header(wanted, self.line_end)
        elif wanted:
            start = self.header.strings[0][0]
            yield start, self.header.stop, replaced(self.text, self.header, wanted, self.line_end)

    def _own_line_end(self) -> str:
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"


def _base(language: str) -> str:
    return re.split(r"[-_.@]", language.lower())[0]


def _context(entry: Entry) -> str | None:
    """The message context, and the comments of programmers (`#.`) and translators (`# `)."""
    message = entry.message("msgctxt")
    about = [message.text] if message is not None else []
    for _, comment in entry.comments:
        if comment[1:2] not in (":", ",", "|", "~"):
            about.append(comment[1:].removeprefix(".").strip())
    return "\n".join(filter(None, about)) or None


def _edges(text: str, source: str) -> str:
    """With a line break at its beginning and its end where the source has one, and only there."""
    return "\n" * source.startswith("\n") + text.strip("\n") + "\n" * source.endswith("\n")
