"""Each document of a corpus gets the route of its language; one without a route is a rejected line.

Knows: the routes of a job, the field that holds a document's language. Does not know: models, formats, tables.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.corpus.corpus import Corpus
from jobs.corpus.field_path import find_field
from jobs.documents import Document, LineName, Record, Reject, Rejected, quoted
from jobs.routing.table import normalized, with_broader
from jobs.spec import JobSpec
from jobs.tasks.translate import TranslateOptions
from jobs.text.json_numbers import read_fields

SHOWN = 20  # languages in a message


@dataclass(frozen=True, slots=True)
class Router:
    """Gives a document the route of its language."""

    field: str
    default: str | None  # the language of a document without one
    languages: Mapping[str, str]  # normalized tag -> the language of a route
    target: str
    _found: dict[str | None, str | None] = dataclasses.field(default_factory=dict)  # the route of each language

    def routed(self, document: Document, line_name: LineName) -> Record:
        """The document with its route, or why it has none. `line_name` names a line of the corpus for people."""
        language = self._language(document)
        if language not in self._found:
            self._found[language] = self._route(language)
        route = self._found[language]
        return self._without_route(document, language, line_name) if route is None else document._replace(route=route)

    def _language(self, document: Document) -> str | None:
        """The language in the document's field, `default` if that is missing or empty. Any value but a text becomes a
        text that is no language."""
        value = find_field(read_fields(document.fields), self.field) if document.fields else None
        if value is None or value == "":
            return self.default
        return value if isinstance(value, str) else repr(value)

    def _route(self, language: str | None) -> str | None:
        tags = with_broader(language) if language else []
        return next((self.languages[tag] for tag in tags if tag in self.languages), None)

    def _without_route(self, document: Document, language: str | None, line_name: LineName) -> Rejected:
        code, what = Reject.NO_ROUTE, f"no route of the job translates from {quoted(language or '')}"
        if language is None:
            code = Reject.NO_LANGUAGE
            what = f"there is no language in the field {quoted(self.field)} (--language-field names another)"
        elif normalized(language) == normalized(self.target):
            what = f"it is in {quoted(language)} already"
        known = ", ".join([*self.languages.values()][:SHOWN]) + (", ..." if len(self.languages) > SHOWN else "")
        reason = f"{what}; into {self.target} there are routes from {known}"
        if (name := line_name(document.line)) != f"line {document.line}":
            reason += f" ({name})"
        return Rejected(
            document.position,
            document.external_id,
            document.numeric_id,
            document.line,
            code,
            reason,
            document.unnamed,
            document.text,
            document.fields,
        )


def router_of(corpus: Corpus, spec: JobSpec) -> Router | None:
    """What gives each document of a job its route; None for a job without routes by language."""
    if corpus.language_field is None:
        return None
    assert isinstance(spec.options, TranslateOptions)
    languages = [route.language for route in spec.routes if route.language is not None]
    return Router(
        corpus.language_field,
        corpus.default_language,
        {normalized(language): language for language in languages},
        spec.options.target_language or "",
    )
