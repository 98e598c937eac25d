"""Plain text, and the memory limit for a line."""

from io import BufferedReader, BytesIO

from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.lines import numbered_lines, read_text
from jobs.documents import Document, Record, Reject, Rejected
from tests.messages import line_with


def read(data: bytes, max_line_bytes: int = 1 << 20) -> list[Record]:
    return list(read_text(BufferedReader(BytesIO(data)), max_line_bytes))


def lines(data: bytes, max_bytes: int, buffer: int = 16) -> list[tuple[int, bytes | None]]:
    return list(numbered_lines(BufferedReader(BytesIO(data), buffer), max_bytes))


def test_a_line_is_a_document_and_its_id_is_the_line_number() -> None:
    assert read("one\nzwei, 三\n".encode()) == [
        Document(0, "1", True, 1, "one", None, 1, True),
        Document(1, "2", True, 2, "zwei, 三", None, 3, True),
    ]


def test_a_blank_line_is_not_a_document_but_counts_as_a_line() -> None:
    records = read("a\n\n \t\n\u3000\nb".encode())

    assert [(record.position, record.external_id, record.line) for record in records] == [(0, "1", 1), (1, "5", 5)]


def test_the_text_is_the_line_without_its_end_and_nothing_else() -> None:
    data = b"  two spaces  \r\n=cmd()\n</s> >>fr<< <unk>\n\x1b[31mred\x0b\x0c\xe2\x80\xa8still\n"

    assert [record.text for record in read(data) if isinstance(record, Document)] == [
        "  two spaces  ",
        "=cmd()",
        "</s> >>fr<< <unk>",
        "\x1b[31mred\x0b\x0c\u2028still",
    ]


def test_a_byte_order_mark_is_dropped_only_at_the_start() -> None:
    assert [record.text for record in read(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") if isinstance(record, Document)] == [
        "a",
        "\ufeffb",
    ]


def test_bytes_that_are_not_utf8_are_rejected_with_their_position() -> None:
    good, bad = read(b"fine\ncaf\xe9\n")

    assert isinstance(good, Document)
    assert isinstance(bad, Rejected)
    assert (bad.line, bad.code) == (2, Reject.BAD_UTF8)
    assert line_with(bad.reason, "byte 4 ", "line 2 ", "0xe9")


def test_a_nul_is_rejected_because_postgresql_cannot_store_it() -> None:
    (bad,) = read(b"a\0b\n")

    assert isinstance(bad, Rejected)
    assert (bad.code, bad.external_id) == (Reject.NUL, "1")


def test_a_line_over_the_limit_is_rejected_and_the_next_one_read() -> None:
    codes = [getattr(record, "code", None) for record in read(b"x" * 11 + b"\n" + b"y" * 10 + b"\n", 10)]

    assert codes == [Reject.TOO_LONG, None]


def test_a_line_without_an_end_is_not_held_in_memory() -> None:
    class Endless(BytesIO):
        """64 MB without a line end; records the largest read that was requested."""

        left, most = 64 << 20, 0

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            self.most = max(self.most, len(buffer))
            taken = min(len(buffer), self.left)
            self.left -= taken
            buffer[:taken] = b"x" * taken
            return taken

    endless = Endless()

    assert list(numbered_lines(BufferedReader(endless), 1000)) == [(1, None)]  # type: ignore[type-var]
    assert (endless.left, endless.most < 1 << 20) == (0, True)


@given(
    pieces=st.lists(st.sampled_from([b"", b"a", b"bb", b"cccc", b"\r", b"\xef\xbb\xbf"]).map(lambda b: b * 3)),
    end=st.sampled_from([b"\n", b"\r\n"]),
    closed=st.booleans(),
    max_bytes=st.integers(1, 14),
    buffer=st.integers(1, 40),
)
def test_lines_equal_those_of_bytes_split_for_any_limit_and_buffer_size(
    pieces: list[bytes], end: bytes, closed: bool, max_bytes: int, buffer: int
) -> None:
    data = end.join(pieces) + (end if closed and pieces else b"")

    def content(line: bytes) -> bytes:
        return line.removesuffix(b"\n").removesuffix(b"\r")

    expected = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if expected[-1] == b"" and not (len(expected) == 1 and data):
        expected.pop()
    held = [None if line is None else content(line) for _, line in lines(data, max_bytes, buffer)]
    assert [number for number, _ in lines(data, max_bytes, buffer)] == list(range(1, len(expected) + 1))
    assert held == [content(line) if len(content(line)) <= max_bytes else None for line in expected]
