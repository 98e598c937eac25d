"""The numbered lines of a byte stream, without keeping one that is too long; and plain text, a document per line."""

from collections.abc import Iterator
from io import BufferedReader

from jobs.corpus.encodings import UNDECODABLE, encoding_question
from jobs.documents import Record, Reject, Rejected, check_record, reject
from jobs.text.formatting import size

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 16


def read_text(stream: BufferedReader, max_line_bytes: int) -> Iterator[Record]:
    """A document per line; its id is the line number. Blank lines are not documents, but they are counted, so that the
    result of line N of a corpus always has the id N."""
    position = 0
    for number, line in numbered_lines(stream, max_line_bytes):
        if line is None:
            yield too_long(position, number, max_line_bytes)
        else:
            try:
                text = line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                yield bad_utf8(position, number, number, error)
            else:
                if not text or text.isspace():
                    continue
                yield check_record(position, number, None, text, {}, "text")
        position += 1


def numbered_lines(stream: BufferedReader, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Each line with its number, from 1; None for a line of more than `max_bytes`, which is skipped.

    A line ends with \\n or \\r\\n, which it keeps and which are not counted. A byte order mark at the start is dropped.
    """
    readline, number = stream.readline, 0
    limit = max_bytes + len(BOM) + 2
    while line := readline(limit):
        number += 1
        if number == 1 and line.startswith(BOM):
            line = line[len(BOM) :]
        limit = max_bytes + 2
        if len(line) <= max_bytes or _fits(line, max_bytes):
            yield number, line
            continue
        while not line.endswith(b"\n") and (line := readline(CHUNK)):
            pass
        yield number, None


def too_long(position: int, line: int, max_line_bytes: int) -> Rejected:
    reason = (
        f"the line is longer than {size(max_line_bytes)}; split it into several documents, or allow longer ones with "
        "--max-text SIZE"
    )
    return reject(position, line, Reject.TOO_LONG, reason)


def bad_utf8(position: int, line: int, bad_line: int, error: UnicodeDecodeError) -> Rejected:
    where = f"byte {error.start + 1} of line {bad_line}"
    if error.object.startswith(UNDECODABLE, error.start):
        reason = f"before {where} is something that the encoding does not have; check the name after --encoding"
    else:
        reason = f"{where} (0x{error.object[error.start]:02x}) is not UTF-8; {encoding_question(error.object)}"
    return reject(position, line, Reject.BAD_UTF8, reason)


def _fits(line: bytes, max_bytes: int) -> bool:
    """Whether a line is within the limit without its line end."""
    ended = line.endswith(b"\n") or len(line) < max_bytes + 2
    return ended and len(line.removesuffix(b"\n").removesuffix(b"\r")) <= max_bytes
