"""csv and tsv: quoting follows RFC 4180, and a broken row spoils no other row."""

import csv
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, BytesIO, StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.delimited import read_delimited
from jobs.documents import Document, Record, Reject, Rejected
from jobs.errors import CorpusError
from tests.messages import line_with


def read(
    data: bytes | str, delimiter: str = ",", id_field: str = "id", text_field: str = "text", limit: int = 1 << 20
) -> list[Record]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_delimited(BufferedReader(BytesIO(data)), delimiter, id_field, {"text": text_field}, limit))


def outcomes(records: list[Record]) -> list[tuple[int, str]]:
    """The line number of each record, with its text or the reason of its rejection."""
    return [(record.line, record.text if isinstance(record, Document) else record.code) for record in records]


def test_a_row_is_a_document_and_other_columns_pass_through() -> None:
    assert read("id,text,lang\n7,hello,en\nb,,\n") == [
        Document(0, "7", False, 2, "hello", '{"lang":"en"}', 2),
        Rejected(
            1, "b", False, 3, Reject.EMPTY_TEXT, "the field 'text' holds no text; fill it in or take the line out"
        ),
    ]


def test_a_table_without_a_header_has_the_columns_that_are_named() -> None:
    data = b'7,"a\nb",en\n\n8,c\n'
    names = {"text": "text"}
    records = list(
        read_delimited(BufferedReader(BytesIO(data)), ",", "id", names, 1 << 20, None, ("id", "text", "lang"))
    )

    assert records[0] == Document(0, "7", False, 1, "a\nb", '{"lang":"en"}', 1)
    assert outcomes(records)[1:] == [(4, Reject.BAD_ROW)]
    with pytest.raises(CorpusError, match="leave --columns out"):
        list(
            read_delimited(BufferedReader(BytesIO(b"id,text\n1,x\n")), ",", "id", names, 1 << 20, None, ("id", "text"))
        )


@pytest.mark.parametrize(
    ("line", "fields", "option"),
    [
        ("Rain is expected.\tx", {"text": "text"}, "--columns id,text?"),
        ("Rain is expected.", {"text": "text"}, "--columns text?"),
        ("a\tRain is expected.\tEs regnet.", {"source": "source", "target": "target"}, "--columns id,source,target?"),
        ("http://a.example\thttp://b.example\tRain\tx", {"text": "text"}, "name its 4 columns in their order, 'text'"),
    ],
)
def test_a_header_of_values_is_refused_with_the_option_that_names_columns(
    line: str, fields: dict[str, str], option: str
) -> None:
    with pytest.raises(CorpusError) as caught:
        list(read_delimited(BufferedReader(BytesIO(f"{line}\n".encode())), "\t", "id", fields, 1 << 20))

    assert option in str(caught.value)


def test_without_an_id_the_line_number_is_the_id() -> None:
    assert [record[:4] for record in read('text\n"two\nlines"\n\nx\n')] == [(0, "2", True, 2), (1, "5", True, 5)]
    assert [record[:4] for record in read("id,text\n,x\na,y\n")] == [(0, "2", True, 2), (1, "a", False, 3)]


def test_a_quoted_cell_holds_delimiters_quotes_and_line_ends_as_they_are() -> None:
    (record,) = read('id,text\r\n1,"a, ""b""\r\nc\n\nd"\r\n')

    assert isinstance(record, Document)
    assert record.text == 'a, "b"\r\nc\n\nd'


def test_a_quote_inside_a_cell_is_a_character() -> None:
    assert outcomes(read('id,text\n1,5" pipe\n2,say "hi"\n')) == [(2, '5" pipe'), (3, 'say "hi"')]


def test_tabs_divide_a_tsv_and_commas_do_not() -> None:
    assert outcomes(read("id\ttext\n1\ta, b\n2\tc\td\n", "\t")) == [(2, "a, b"), (3, Reject.BAD_ROW)]


def test_a_row_with_too_few_or_too_many_cells_is_rejected_alone() -> None:
    records = read("id,text\n1\n2,b,c\n3,d\n")

    assert outcomes(records) == [(2, Reject.BAD_ROW), (3, Reject.BAD_ROW), (4, "d")]
    assert isinstance(records[1], Rejected)
    assert line_with(records[1].reason, "3 cells", "header 2")


def test_a_quote_that_never_closes_rejects_its_own_line_only() -> None:
    rows = "".join(f"{number},text {number}\n" for number in range(3, 40))

    assert outcomes(read(f'id,text\n2,"never closed\n{rows}')) == [
        (2, Reject.BAD_ROW),
        *((number, f"text {number}") for number in range(3, 40)),
    ]
    assert outcomes(read(f'id,text\n2,"never closed\n{rows}', limit=60)) == [
        (2, Reject.BAD_ROW),
        *((number, f"text {number}") for number in range(3, 40)),
    ]


def test_text_after_a_closing_quote_is_rejected_as_ambiguous() -> None:
    records = read('id\ttext\n1\t"Hello," she said.\n2\tfine\n', "\t")

    assert outcomes(records) == [(2, Reject.BAD_ROW), (3, "fine")]
    assert isinstance(records[0], Rejected)
    assert records[0].reason.isprintable()
    assert "double the quotes" in records[0].reason


def test_bytes_that_are_not_utf8_reject_the_whole_row_and_nothing_else() -> None:
    records = read(b'id,text\n1,"a\ncaf\xe9\nb"\n2,c\n')

    assert outcomes(records) == [(2, Reject.BAD_UTF8), (5, "c")]
    assert isinstance(records[0], Rejected)
    assert "line 3 (0xe9)" in records[0].reason


def test_a_line_over_the_limit_is_rejected_and_the_next_one_read() -> None:
    assert outcomes(read("id,text\n1," + "x" * 100 + "\n2,y\n", limit=50)) == [(2, Reject.TOO_LONG), (3, "y")]
    assert outcomes(read("id,text\n1,a\n2," + "x" * 200_000 + "\n")) == [(2, "a"), (3, "x" * 200_000)]


def test_nul_and_a_lone_carriage_return_are_rejected() -> None:
    records = read(b"id,text\n1,a\0b\n2,a\rb\n3,c\n")

    assert outcomes(records) == [(2, Reject.NUL), (3, Reject.BAD_ROW), (4, "c")]
    assert isinstance(records[1], Rejected)
    assert "carriage return" in records[1].reason


def test_a_byte_order_mark_is_no_part_of_the_header() -> None:
    assert outcomes(read(b"\xef\xbb\xbftext,id\r\na,1\r\n")) == [(2, "a")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("id;text\n1;a\n", "no column 'text' (it has 'id;text'); the delimiter is another: --delimiter ';'?"),
        ("id;content;lang\n1;a;b\n", "the delimiter is another: --delimiter ';' --text-field content?"),
        ("id\ttext\n1\ta\n", "the delimiter is another: --delimiter tab?"),
        ("id,content\n1,a\n", "the text is in the column 'content': --text-field content?"),
        ("id,a,b\n1,a,b\n", "(it has 'id', 'a', 'b'); name it with --text-field"),
        ('{"id": 1, "text": "a"}\n', "the lines are JSON objects: --format jsonl?"),
        ("id,text,text\n1,a,b\n", "two columns 'text'"),
        ('id,"text\n1,a\n', "not a header"),
        (b"id,text\xff\n1,a\n", "not UTF-8"),
        ("x" * 100 + "\n", "too long"),
    ],
)
def test_a_header_without_the_needed_columns_refuses_the_corpus(data: bytes | str, message: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read(data, limit=50)

    assert message in str(caught.value)


def test_an_id_column_that_was_asked_for_must_be_there() -> None:
    with pytest.raises(CorpusError, match="no column 'key'"):
        read("id,text\n1,a\n", id_field="key")


def test_a_header_without_rows_makes_no_documents() -> None:
    assert read("id,text\n") == read("") == []


cells = st.text(st.sampled_from('ab",\t\n\r é=')).filter(lambda text: text.strip())


@given(rows=st.lists(st.tuples(cells, cells)), delimiter=st.sampled_from(",\t"), end=st.sampled_from(["\n", "\r\n"]))
def test_output_of_the_csv_module_is_read_back_unchanged(rows: list[tuple[str, str]], delimiter: str, end: str) -> None:
    file = StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *rows])

    assert [record[1:2] + record[4:5] for record in read(file.getvalue(), delimiter)] == rows


@given(lines=st.lists(st.text(st.sampled_from('a",')), max_size=12))
def test_rows_equal_those_of_the_slow_reference(lines: list[str]) -> None:
    assert outcomes(read("text,id\n" + "".join(f"{line}\n" for line in lines))) == list(slow_reference(lines))


def slow_reference(lines: list[str]) -> Iterator[tuple[int, str]]:
    """From each line on, take the fewest lines that form a valid row; if none do, reject this line and go on."""
    at = 0
    while at < len(lines):
        cells, stop = None, at + 1
        for end in range(at + 1, len(lines) + 1):
            with suppress(csv.Error):
                (cells,) = csv.reader([f"{line}\n" for line in lines[at:end]], strict=True)
                stop = end
                break
        if cells is None or (cells and len(cells) != 2):
            yield at + 2, Reject.BAD_ROW
        elif cells:
            yield at + 2, cells[0] if cells[0].strip() else Reject.EMPTY_TEXT
        at = stop
