"""Rows of a parquet file become documents; what cannot is said with the columns that there are."""

import datetime as dt
import decimal
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import read_corpus
from jobs.documents import Document, Record, Reject, Rejected
from jobs.errors import CorpusError
from jobs.tasks.kind import PayloadKind
from tests.messages import line_with
from tests.parquet_files import pa, write_parquet

pytestmark = pytest.mark.usefixtures("parquet_here")


def read(path: Path, **how: Any) -> list[Record]:
    return list(read_corpus(Corpus(path=path, **how)))


def fields_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(record.fields or "{}") for record in read(path) if isinstance(record, Document)]


def refusal(path: Path, **how: Any) -> str:
    with pytest.raises(CorpusError) as caught:
        read(path, **how)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def test_a_row_is_a_document_and_its_number_its_line(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"], "id": ["a", "b"], "n": [1, 2]})

    first, second = read(path)

    assert first == Document(0, "a", False, 1, "one", '{"n":1}', 1)
    assert (second.position, second.line) == (1, 2)


def test_a_file_without_ids_counts_its_rows(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"]}, row_group_size=1)

    assert [(record.external_id, record.numeric_id) for record in read(path)] == [("1", True), ("2", True)]


@pytest.mark.parametrize(
    ("column", "written"),
    [
        (pa.array([1, None], pa.int8()), "[1,null]"),
        (pa.array([2**63 - 1, -(2**63)]), "[9223372036854775807,-9223372036854775808]"),
        (pa.array([2**64 - 1, 0], pa.uint64()), "[18446744073709551615,0]"),
        (pa.array([True, None]), "[true,null]"),
        (pa.array([0.1, 1.0]), "[0.1,1.0]"),
        (pa.array([float("nan"), None]), "[null,null]"),
        (pa.array([0.1, None], pa.float32()), "[0.1,null]"),
        (pa.array([0.5, 2], pa.float16()), "[0.5,2.0]"),
        (pa.array([decimal.Decimal("1.10"), None]), "[1.10,null]"),
        (pa.array([decimal.Decimal(10) ** 30, decimal.Decimal(-1)]), f"[1{'0' * 30},-1]"),
        (pa.array(["ü", None]), '["ü",null]'),
        (pa.array(["b", "b"]).dictionary_encode(), '["b","b"]'),
        (pa.array([b"\x00\xff", b""]), '["AP8=",""]'),
        (pa.array([None, None]), "[null,null]"),
        (pa.array([[1, None], None]), "[[1,null],null]"),
        (pa.array([[0.1], []], pa.list_(pa.float32())), "[[0.1],[]]"),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "[[1,2],null]"),
        (pa.array([{"a": 1, "b": [{"c": "x"}]}, None]), '[{"a":1,"b":[{"c":"x"}]},null]'),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), '[{"k":1},null]'),
        (pa.array([[(7, 1)], []], pa.map_(pa.int64(), pa.int64())), "[[[7,1]],[]]"),
        (pa.array([dt.date(2026, 1, 2), None]), '["2026-01-02",null]'),
        (pa.array([dt.time(1, 2, 3), None]), '["01:02:03.000000",null]'),
        (pa.array([dt.timedelta(1), None], pa.duration("s")), "[86400,null]"),
        (pa.array([dt.datetime(2026, 1, 2, 3), None], pa.timestamp("ms")), '["2026-01-02T03:00:00.000",null]'),  # noqa: DTZ001
        (pa.array([1, None], pa.timestamp("ns", "Asia/Tokyo")), '["1970-01-01T00:00:00.000000001Z",null]'),
        (
            pa.array([uuid.UUID(int=7).bytes, None], pa.uuid()),
            '["00000000-0000-0000-0000-000000000007",null]',
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_a_column_of_each_type_passes_through_as_json_has_it(tmp_path: Path, column: Any, written: str) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"], "x": column})

    found = [record.fields for record in read(path) if isinstance(record, Document)]

    first, second = (f'{{"x":{value}}}' for value in _items(written))
    assert found == [first, second]


def _items(written: str) -> Sequence[str]:
    """The two members of a JSON list, as they are written."""
    inner, depth = written[1:-1], 0
    for index, sign in enumerate(inner):
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and not depth:
            return inner[:index], inner[index + 1 :]
    raise AssertionError(written)


@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    ),
    group=st.integers(1, 5),
)
def test_numbers_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float]], group: int
) -> None:
    columns = {"text": ["x"] * len(rows), "i": [one for one, _ in rows], "f": [one for _, one in rows]}
    path = write_parquet(tmp_path_factory.mktemp("parquet") / "a.parquet", columns, row_group_size=group)

    assert [(one["i"], one["f"]) for one in fields_of(path)] == rows


def test_texts_in_columns_of_bytes_are_read_as_old_writers_meant_them(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"id": [b"a", b"b"], "text": [b"one", b"\xff\n"]})

    first, second = read(path)

    assert isinstance(first, Document)
    assert (first.external_id, first.text) == ("a", "one")
    assert isinstance(second, Rejected)
    assert second.code is Reject.BAD_UTF8


def test_a_row_without_a_text_is_rejected_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", None, "", "four"]})

    assert [getattr(record, "code", None) for record in read(path)] == [None, Reject.NO_TEXT, Reject.EMPTY_TEXT, None]


def test_pairs_and_candidates_are_read_from_columns(tmp_path: Path) -> None:
    pairs = write_parquet(tmp_path / "p.parquet", {"source": ["one"], "target": ["eins"]})
    candidates = [[{"id": "d1", "text": "a", "score": 1.5}, {"id": "d2", "text": "b", "score": None}]]
    queries = write_parquet(tmp_path / "q.parquet", {"query": ["why?"], "candidates": candidates})

    (pair,) = read(pairs, payload_kind=PayloadKind.PAIRS)
    (query,) = read(queries, payload_kind=PayloadKind.CANDIDATES)

    assert isinstance(pair, Document)
    assert pair.text == '{"source":"one","target":"eins"}'
    assert isinstance(query, Document)
    assert orjson.loads(query.text)["candidates"] == [
        {"id": "d1", "text": "a", "score": 1.5},
        {"id": "d2", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("columns", "how", "says"),
    [
        ({"id": [1], "body": ["x"]}, {}, "no column 'text' (it has 'id', 'body'); --text-field body?"),
        (
            {"id": [1], "a": ["x"], "b": ["y"]},
            {},
            "(it has 'id', 'a', 'b'); name it with --text-field",
        ),
        ({"text": [1], "body": ["x"]}, {}, "'text' holds int64, not text; texts are in 'body'; name one with --text-f"),
        ({"text": ["x"]}, {"id_field": "key"}, "no column 'key' (it has 'text'); name it with --id-field"),
        ({"text": ["x"], "id": [True]}, {}, "'id' holds bool, and an id is a text or a whole number"),
        ({"t": [{"en": "x", "n": 1}]}, {}, "(it has 't'); --text-field t.en?"),
        ({"t": [{"en": b"x"}]}, {"text_field": "t.en"}, "'t.en' holds dictionary<values=binary"),
        ({"text": []}, {}, "holds null, not text"),
        ({"text": pa.array([], pa.string())}, {}, "there is no row in it; is it the right file?"),
    ],
)
def test_a_table_that_is_no_corpus_is_refused_with_its_columns(
    tmp_path: Path, columns: dict[str, Any], how: dict[str, Any], says: str
) -> None:
    assert says in refusal(write_parquet(tmp_path / "a.parquet", columns), **how)


def test_a_field_of_a_column_of_objects_and_an_id_with_gaps_are_read(tmp_path: Path) -> None:
    columns = {"id": [1.0, None, 2.5], "t": [{"en": "x", "de": "a"}, {"en": "y", "de": "b"}, {"en": "z", "de": "c"}]}
    path = write_parquet(tmp_path / "a.parquet", columns)

    one, two, three = read_corpus(Corpus(path=path, text_field="t.en"))

    assert [one[:5], two[:5]] == [(0, "1", True, 1, "x"), (1, "2", True, 2, "y")]
    assert isinstance(three, Rejected)
    assert three.code is Reject.BAD_ID


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array([1]), pa.array([2])], names=["text", "n", "n"])
    pa.parquet.write_table(table, tmp_path / "a.parquet")

    assert refusal(tmp_path / "a.parquet") == "it has two columns 'n'; rename one"


def test_what_is_not_a_whole_parquet_file_is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one"] * 1000})
    data = path.read_bytes()
    for damaged in (b"", b"PAR1", b'{"text": "x"}\n' * 9, data[:-20], data[: len(data) // 2]):
        path.write_bytes(damaged)
        assert line_with(refusal(path), "not ", "parquet file")


def test_without_pyarrow_the_command_that_installs_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one"]})
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)

    assert line_with(refusal(path), "pyarrow", "pip install")


def test_an_encrypted_file_is_refused_as_such(tmp_path: Path) -> None:
    data = bytearray(write_parquet(tmp_path / "a.parquet", {"text": ["one"]}).read_bytes())
    data[:4] = data[-4:] = b"PARE"  # the magic of an encrypted footer
    (tmp_path / "a.parquet").write_bytes(data)

    assert "encrypted" in refusal(tmp_path / "a.parquet")
