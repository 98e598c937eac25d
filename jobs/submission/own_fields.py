"""Each document of a corpus gets the options that its fields say; one with a value that an option cannot be is a
rejected line.

Knows: which field says which option. Does not know: models, formats, tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.corpus.corpus import Corpus
from jobs.corpus.field_path import find_field
from jobs.documents import Document, LineName, Record, Reject, Rejected, quoted
from jobs.errors import SpecError
from jobs.tasks.document_options import own_options, with_more
from jobs.tasks.option import Option
from jobs.text.json_numbers import read_fields


@dataclass(frozen=True, slots=True)
class OwnFields:
    """Gives a document the options of its own."""

    fields: Mapping[str, str]  # the field of each option

    def applied(self, document: Document, line_name: LineName) -> Record:
        """The document with its options, or why it cannot be one. A field that is missing, null or empty says nothing.
        `line_name` names a line of the corpus for people."""
        values = read_fields(document.fields)
        own: dict[str, Any] = {}
        for name, field in self.fields.items():
            value = find_field(values, field)
            if value is None or value == "":
                continue
            try:
                own[name] = _read(own_options()[name], value)
            except SpecError as error:
                return _rejected(document, f"the field {quoted(field)} says {error}", line_name)
        return document._replace(own_options=with_more(document.own_options, own)) if own else document


def own_fields_of(corpus: Corpus) -> OwnFields | None:
    """What gives each document of a corpus its options; None: no field says any."""
    return OwnFields(corpus.own_fields) if corpus.own_fields else None


def _read(option: Option, value: Any) -> Any:
    if isinstance(value, orjson.Fragment):  # a number that is none of the whole numbers that options have
        value = bytes(value.contents).decode() if isinstance(value.contents, bytes) else value.contents
    if isinstance(value, str) and option.numbers is not None:  # a table's cell
        return option.read_texts([value])
    return option.read(value)


def _rejected(document: Document, reason: str, line_name: LineName) -> Rejected:
    if (name := line_name(document.line)) != f"line {document.line}":
        reason += f" ({name})"
    return Rejected(
        document.position,
        document.external_id,
        document.numeric_id,
        document.line,
        Reject.BAD_OPTION,
        reason,
        document.unnamed,
        document.text,
        document.fields,
    )
