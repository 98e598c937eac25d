"""The route of each document by its language, the options that its fields say, and why a document has none."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from jobs.documents import Document, Record, Reject, Rejected
from jobs.submission.document_changes import ChangedRecords
from jobs.submission.document_routes import Router
from jobs.submission.own_fields import OwnFields

ROUTES = {"fr": "fr", "pt-br": "pt-BR", "pt": "pt"}


class Lines:
    """A reader of these records, which it gives again at each iteration."""

    source, lines_read, bytes_read = "corpus.jsonl", 1, 1

    def __init__(self, *records: Record) -> None:
        self.records = records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def digest(self) -> str:
        return "d"

    def first_lines(self) -> list[bytes]:
        return [b"{}"]

    def line_name(self, line: int) -> str:
        return f"line {line}"


def document(position: int, **fields: Any) -> Document:
    written = orjson.dumps(fields).decode() if fields else None
    return Document(position, f"d{position}", False, position + 1, "text", written, 1)


def routed(*records: Record, default: str | None = None) -> list[Record]:
    reader = ChangedRecords(Lines(*records), [Router("lang", default, ROUTES, "de").routed])
    found = list(reader)
    assert found == list(reader), "it can be read again"
    return found


@pytest.mark.parametrize(
    ("language", "route"), [("fr", "fr"), ("FR", "fr"), ("fr_CA", "fr"), ("pt-BR", "pt-BR"), ("pt-PT", "pt")]
)
def test_a_language_has_its_own_route_else_that_of_a_broader_one(language: str, route: str) -> None:
    (found,) = routed(document(0, lang=language, n=1))

    assert found == document(0, lang=language, n=1)._replace(route=route)


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({}, Reject.NO_LANGUAGE, "there is no language in the field 'lang' (--language-field names another)"),
        ({"lang": None}, Reject.NO_LANGUAGE, "there is no language in the field 'lang'"),
        ({"lang": ""}, Reject.NO_LANGUAGE, "there is no language in the field 'lang'"),
        ({"lang": "sw"}, Reject.NO_ROUTE, "no route of the job translates from 'sw'; into de there are routes from"),
        ({"lang": 7}, Reject.NO_ROUTE, "no route of the job translates from '7'"),
        ({"lang": "DE"}, Reject.NO_ROUTE, "it is in 'DE' already"),
        ({"lang": "f"}, Reject.NO_ROUTE, "no route of the job translates from 'f'"),
    ],
)
def test_a_line_without_a_route_is_rejected_with_its_place_and_id(
    fields: dict[str, Any], code: Reject, reason: str
) -> None:
    (found,) = routed(document(3, **fields))

    assert isinstance(found, Rejected)
    assert (found.position, found.external_id, found.line, found.code) == (3, "d3", 4, code)
    assert (found.text, found.fields) == (document(3, **fields).text, document(3, **fields).fields), "nothing is lost"
    assert found.reason.startswith(reason)
    assert found.reason.endswith("into de there are routes from fr, pt-BR, pt")


def test_a_line_without_a_language_has_the_default_and_a_rejected_one_stays_as_it_is() -> None:
    bad = Rejected(1, None, False, 2, Reject.BAD_JSON, "bad")

    assert routed(document(0), bad, default="fr") == [document(0)._replace(route="fr"), bad]


FIELDS = OwnFields({"max_chars": "room", "target_language": "to.code", "max_new_tokens": "most"})


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({}, None),
        ({"room": None, "to": {"code": ""}, "other": 1}, None),
        ({"room": 12}, '{"max_chars":12}'),
        (
            {"room": " 12 ", "to": {"code": "de"}, "most": 7},
            '{"max_chars":12,"max_new_tokens":7,"target_language":"de"}',
        ),
    ],
)
def test_fields_say_the_options_of_a_document(fields: dict[str, Any], own: str | None) -> None:
    (found,) = ChangedRecords(Lines(document(0, **fields)), [FIELDS.applied])

    assert found == document(0, **fields)._replace(own_options=own)


def test_what_a_file_says_of_a_document_stays_beside_what_its_fields_say() -> None:
    unit = document(0, room=3)._replace(own_options='{"markup":"html","max_chars":9}')

    assert FIELDS.applied(unit, str) == unit._replace(own_options='{"markup":"html","max_chars":3}')


@pytest.mark.parametrize("fields", [{"room": 0}, {"room": "x"}, {"room": 1.5}, {"to": {"code": 5}}, {"most": True}])
def test_a_document_with_a_value_that_no_option_can_be_is_a_rejected_line(fields: dict[str, Any]) -> None:
    found = FIELDS.applied(document(4, **fields), "row {}".format)

    assert isinstance(found, Rejected)
    assert (found.code, found.line, found.text) == (Reject.BAD_OPTION, 5, "text")
    assert "(row 5)" in found.reason
