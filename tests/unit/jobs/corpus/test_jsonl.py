"""JSON Lines: which lines are documents, which are rejected, and which fields pass through unchanged."""

import csv
import json
from io import BufferedReader, BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.jsonl import read_jsonl
from jobs.documents import MAX_ID_BYTES, Document, Record, Reject, Rejected
from jobs.export.delimited_rows import DelimitedRows
from jobs.export.export_formats import Delimited, JsonLines
from jobs.export.result_columns import Shape
from jobs.store.report.documents.export import ExportedDocument
from jobs.tasks.translate import TRANSLATE
from jobs.text.json_numbers import read_fields
from jobs.text.json_text import to_json
from tests.messages import line_with


def read(data: bytes | str, id_field: str = "id", text_field: str = "text", limit: int = 1 << 20) -> list[Record]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_jsonl(BufferedReader(BytesIO(data)), id_field, text_field, limit))


def document(data: bytes | str, **how: Any) -> Document:
    (record,) = read(data, **how)
    assert isinstance(record, Document), record
    return record


def rejected(data: bytes | str, **how: Any) -> Rejected:
    (record,) = read(data, **how)
    assert isinstance(record, Rejected), record
    assert record.reason.isprintable()
    return record


# ids ----------------------------------------------------------------------------------------------------------------


def test_an_id_is_text_or_a_number_and_keeps_its_type() -> None:
    assert document('{"id": "a-1", "text": "x"}')[:4] == (0, "a-1", False, 1)
    assert document('{"id": 17, "text": "x"}')[:4] == (0, "17", True, 1)
    assert document('{"id": "17", "text": "x"}')[:4] == (0, "17", False, 1)
    assert document('{"id": -3, "text": "x"}')[:4] == (0, "-3", True, 1)


@pytest.mark.parametrize("line", ['{"text": "x"}', '{"id": null, "text": "x"}', '{"id": "", "text": "x"}'])
def test_without_an_id_the_line_number_is_the_id(line: str) -> None:
    assert [record[:4] for record in read(f"\n{line}\n\n{line}\n")] == [(0, "2", True, 2), (1, "4", True, 4)]


@pytest.mark.parametrize("value", ["1.5", "true", "[1]", '{"a": 1}', "1e3", "1.01", "1E400"])
def test_an_id_of_another_type_is_rejected(value: str) -> None:
    assert rejected(f'{{"id": {value}, "text": "x"}}').code == Reject.BAD_ID


@pytest.mark.parametrize("written", ["1.0", "1.00", "1"])
def test_an_integer_id_may_be_written_with_a_point(written: str) -> None:
    """pandas does so where the column has a gap."""
    assert document(f'{{"id": {written}, "text": "x"}}')[:4] == (0, "1", True, 1)


def test_a_field_may_be_in_an_object_of_the_line() -> None:
    line = '{"meta": {"key": 7.0, "n": 1}, "translation": {"en": "x", "zh": "y"}}'
    found = document(line, id_field="meta.key", text_field="translation.en")

    assert (found.external_id, found.text) == ("7", "x")
    assert found.fields == '{"meta":{"n":1},"translation":{"zh":"y"}}'


def test_a_field_whose_name_has_the_dot_comes_first() -> None:
    found = document('{"a": {"b": "nested"}, "a.b": "own"}', text_field="a.b")

    assert (found.text, found.fields) == ("own", '{"a":{"b":"nested"}}')


def test_an_object_in_place_of_a_text_is_rejected_with_a_field_in_it() -> None:
    assert "--text-field t.en" in rejected('{"t": {"en": "x"}}', text_field="t").reason
    assert "'t.en'" in rejected('{"t": {"en": "x"}}', text_field="t.fr").reason


def test_an_integer_id_of_any_length_is_kept_digit_by_digit() -> None:
    digits = "-123456789012345678901234567890"

    assert document(f'{{"id": {digits}, "text": "x"}}').external_id == digits
    assert document('{"id": -0, "text": "x"}').external_id == "-0"
    assert document('{"id": %s, "text": "x"}' % ("9" * MAX_ID_BYTES)).external_id == "9" * MAX_ID_BYTES
    assert rejected('{"id": %s, "text": "x"}' % ("9" * 5000)).code == Reject.BAD_ID


def test_an_id_that_no_index_can_hold_is_rejected() -> None:
    assert document('{"id": "%s", "text": "x"}' % ("i" * MAX_ID_BYTES)).external_id == "i" * MAX_ID_BYTES
    assert rejected('{"id": "%s", "text": "x"}' % ("i" * (MAX_ID_BYTES + 1))).code == Reject.BAD_ID
    assert rejected('{"id": "%s", "text": "x"}' % ("é" * 1100)).code == Reject.BAD_ID
    assert rejected('{"id": "a\\u0000", "text": "x"}').code == Reject.BAD_ID


def test_the_fields_of_id_and_text_can_have_other_names() -> None:
    line = '{"id": 1, "doc": "d", "body": "b", "text": 2}'

    assert document(line, id_field="doc", text_field="body") == Document(0, "d", False, 1, "b", '{"id":1,"text":2}', 1)


# texts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"id": "a"}', Reject.NO_TEXT),
        ('{"id": "a", "text": null}', Reject.NO_TEXT),
        ('{"id": "a", "text": 5}', Reject.TEXT_TYPE),
        ('{"id": "a", "text": 123456789012345678901234567890, "f": 0.5}', Reject.TEXT_TYPE),
        ('{"id": "a", "text": ["x"]}', Reject.TEXT_TYPE),
        ('{"id": "a", "text": ""}', Reject.EMPTY_TEXT),
        ('{"id": "a", "text": " \\n\\u3000\\t"}', Reject.EMPTY_TEXT),
        ('{"id": "a", "text": "x\\u0000"}', Reject.NUL),
    ],
)
def test_a_line_without_a_usable_text_is_rejected_under_its_id(line: str, code: Reject) -> None:
    assert rejected(line)[:5] == (0, "a", False, 1, code)


def test_a_missing_text_names_the_fields_that_are_there() -> None:
    assert line_with(rejected('{"body": "x", "lang": "en"}').reason, "'body', 'lang'", "--text-field")
    assert rejected('{"messages": []}').reason.endswith("(it has messages, which --task generate --chat takes)")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "\x1b[2J\x1b]0;title\x07",
        "'; DROP TABLE documents; --",
        "=cmd()",
        "</s> >>fr<< <unk> <pad>",
        "\u202eright to left",
        "\ufffd 😀 \u0301",
    ],
)
def test_hostile_text_is_text(text: str) -> None:
    assert document(json.dumps({"text": text, "other": text}, ensure_ascii=False))[4:6] == (
        text,
        json.dumps({"other": text}, ensure_ascii=False, separators=(",", ":")),
    )


def test_tokens_are_estimated_from_utf8_bytes() -> None:
    assert document('{"text": "a"}').estimated_tokens == 1
    assert document('{"text": "12345678"}').estimated_tokens == 2
    assert document('{"text": "一二三四"}').estimated_tokens == 3


# lines that are not documents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", Reject.BAD_JSON),
        (b'{"id": 1, "text": "x"', Reject.BAD_JSON),
        (b'{"text": "x",}', Reject.BAD_JSON),
        (b"{'text': 'x'}", Reject.BAD_JSON),
        (b'{"text": "x", "score": NaN}', Reject.BAD_JSON),
        (b'{"text": "x", "score": -Infinity, "n": 1e999}', Reject.BAD_JSON),
        (b'{"text": "x", "score": 1e999', Reject.BAD_JSON),
        (b'{"text": "\\ud800", "score": 1e999}', Reject.LONE_SURROGATE),
        (b'{"text": "x", "score": 1e999, "f": "\\udfff"}', Reject.BAD_JSON),
        (b'{"text": "x"} {"text": "y"}', Reject.BAD_JSON),
        (b'\0{"text": "x"}', Reject.BAD_JSON),
        (b'["x"]', Reject.NOT_OBJECT),
        (b'"x"', Reject.NOT_OBJECT),
        (b"17", Reject.NOT_OBJECT),
        (b"null", Reject.NOT_OBJECT),
        (b'{"text": "caf\xe9"}', Reject.BAD_UTF8),
        (b'{"text": "\xed\xa0\x80"}', Reject.BAD_UTF8),
        (b'{"text": "\\ud800"}', Reject.LONE_SURROGATE),
        (b'{"text": "x", "f": "\\udfff\\ud800"}', Reject.LONE_SURROGATE),
        (b'{"text": "x", "f": ' + b"[" * 300 + b"]" * 300 + b"}", Reject.TOO_DEEP),
        (b'{"text": "x", "f": ' + b"[" * 1000 + b"1234567890123456789" + b"]" * 1000 + b"}", Reject.TOO_DEEP),
        (b'{"text": "' + b"x" * 200 + b'"}', Reject.TOO_LONG),
    ],
)
def test_a_line_that_is_not_a_document_is_rejected_with_the_reason(line: bytes, code: Reject) -> None:
    assert rejected(line, limit=150 if code == Reject.TOO_LONG else 10_000).code == code


def test_a_reason_quotes_the_line_shortened_and_without_control_characters() -> None:
    reason = rejected(b'{"text": \x1b[31m\x07\xc2\x9b\xe2\x80\xae' + b"x" * 500).reason

    assert "\\x1b[31m\\x07\\x9b\\u202e" in reason
    assert len(reason) < 250


def test_plain_text_that_is_read_as_jsonl_is_rejected_with_a_hint() -> None:
    assert "--format txt" in rejected("Hello there").reason


def test_blank_lines_carriage_returns_and_a_byte_order_mark_are_harmless() -> None:
    records = read(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n  \n{"text": "b"}')

    assert [record[:5] for record in records] == [(0, "1", True, 1, "a"), (1, "4", True, 4, "b")]


# fields that pass through -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    (
        "123456789012345678901234567890 18446744073709551616 -9223372036854775809 -0 -0.0 0.10 1e5 1E5 1e+05 1E400 "
        "-1e-400 0.00001 1e16 12345678901234567.0 0.1000000000000000055 " + "9" * 400
    ).split(),
)
def test_a_number_passes_through_as_it_is_written(number: str) -> None:
    for fields in ('{"n":%s}', '{"s":"a b","n":%s,"b":[true,null,1.5]}', '{"n":[%s]}', '{"n":{"m":[{"k":%s}]}}'):
        kept = fields % number
        assert document('{"text":"x",' + kept[1:]).fields == kept
        assert document('{ "text" : "x \\u00e9",\t' + kept[1:].replace(":", " :\t")).fields == kept


integers = st.from_regex(r"-?(0|[1-9][0-9]{0,30})", fullmatch=True)
decimals = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
doubles = st.floats(allow_nan=False, allow_infinity=False).map(repr)
json_numbers = st.recursive(
    integers | decimals | doubles,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda some: f"[{','.join(some)}]") | inner.map('{{"n":{}}}'.format)
    ),
    max_leaves=3,
)


@given(written=st.lists(json_numbers, min_size=1, max_size=3))
def test_every_number_of_json_is_kept_to_the_byte(written: list[str]) -> None:
    fields = ",".join(f'"f{place}":{number}' for place, number in enumerate(written))
    (record,) = read(f'{{"id":"a","text":"x",{fields}}}')

    assert isinstance(record, Document)
    assert record.fields == f"{{{fields}}}"
    assert to_json(read_fields(record.fields)).decode() == record.fields
    names = [f"f{place}" for place in range(len(written))]
    exported = ExportedDocument(0, "a", False, False, 1, record.fields, None, None, None, None, "ok", {"text": "x"})
    assert JsonLines(Shape(TRANSLATE)).line(exported).decode().endswith(f',"translation":"x",{fields}}}\n')
    for tabs in (False, True):
        row = Delimited(Shape(TRANSLATE), DelimitedRows(tabs), names).line(exported).decode()
        (cells,) = csv.reader([row], delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_ALL)
        assert cells[4 : 4 + len(written)] == written


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts, lambda v: st.lists(v) | st.dictionaries(texts, v), max_leaves=4
)


@given(fields=st.dictionaries(texts.filter(lambda name: name not in ("id", "text")), values), escaped=st.booleans())
def test_other_fields_pass_through_exactly(fields: dict[str, Any], escaped: bool) -> None:
    kept = document(json.dumps({"id": 1, "text": "x", **fields}, ensure_ascii=escaped)).fields

    assert (json.loads(kept) if kept else {}) == fields


LINES = {
    "document": b'{"id": "%d", "text": "good"}',
    "rejected": b'{"id": "%d", "text": ',
    "blank": b"  ",
    "too long": b'{"id": "%d", "text": "' + b"x" * 100 + b'"}',
}


@given(kinds=st.lists(st.sampled_from(sorted(LINES))), end=st.sampled_from([b"\n", b"\r\n"]))
def test_every_line_is_accounted_for_exactly_once(kinds: list[str], end: bytes) -> None:
    data = b"".join((LINES[kind] % n if b"%d" in LINES[kind] else LINES[kind]) + end for n, kind in enumerate(kinds))
    records = read(data, limit=60)

    assert [record.position for record in records] == list(range(len(records)))
    found = {record.line: "document" if isinstance(record, Document) else "rejected" for record in records}
    expected = {n: "rejected" if kind == "too long" else kind for n, kind in enumerate(kinds, 1) if kind != "blank"}
    assert found == expected
