"""Addresses of documents: an id of any characters, or a position."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from jobs.web.document_view.document_address import document_address, json_document_address


@pytest.mark.parametrize("document_id", ["7", "a/b", "a?b#c%2F&d=e", "größe 中", "a.json", "x..y", "+ +"])
def test_an_id_is_the_last_part_of_the_path(document_id: str) -> None:
    parts = urlsplit(document_address(3, 5, document_id, {"status": "ok"}))

    assert unquote(parts.path) == f"/jobs/3/documents/{document_id}"
    assert parse_qs(parts.query) == {"status": ["ok"]}


@pytest.mark.parametrize("document_id", [None, "..", "a/../b", "./x", "a\\..\\b", "a\nb", "", "a//b", "\u202e"])
def test_an_id_that_a_browser_would_change_is_a_position(document_id: str | None) -> None:
    assert document_address(3, 5, document_id, {}) == "/jobs/3/documents/?position=5"


def test_json_stands_behind_the_id() -> None:
    assert json_document_address(3, 5, "a/b", {"status": "ok"}) == "/jobs/3/documents/a%2Fb.json?status=ok"
    assert json_document_address(3, 5, None, {}) == "/jobs/3/documents/.json?position=5"
