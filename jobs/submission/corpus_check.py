"""The check before a job is made: a corpus without a single document is refused, with a hint what was probably
meant."""

from collections.abc import Iterator
from itertools import chain

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.guess import guess_by_lines, guess_by_text, guess_list
from jobs.corpus.reading import RecordReader
from jobs.documents import Document, Record, Rejected
from jobs.errors import CorpusError

MAX_HELD = 10_000  # rejected records kept in memory; where more come first, the corpus is read a second time


def check_records(corpus: Corpus, reader: RecordReader) -> Iterator[Record]:
    """All records of the corpus, in order. Raises CorpusError where none of them is a document, and for JSON Lines in a
    file named .txt."""
    records, held = iter(reader), list[Record]()
    first: Rejected | None = None
    count = 0
    for record in records:
        if isinstance(record, Document):
            _refuse_misnamed(corpus, reader)
            return chain(held, [record], records) if count == len(held) else iter(reader)
        first = first or record
        count += 1
        if count <= MAX_HELD:
            held.append(record)
    assert first  # the reader refuses an empty corpus
    lines = "its one line cannot be used" if count == 1 else f"none of its {count:,} lines can be used"
    if corpus.is_translatable:
        raise CorpusError(f"{corpus.source}: none of its texts can be used; {first.reason}")
    why = _guess(corpus, reader) or f"{reader.line_name(first.line)}: {first.reason}"
    raise CorpusError(f"{corpus.source}: {lines}; {why}")


def _guess(corpus: Corpus, reader: RecordReader) -> str | None:
    if corpus.run is None and corpus.read_as is Format.JSONL:
        return guess_by_lines(reader.first_lines(), corpus.payload_fields)
    return None


def _refuse_misnamed(corpus: Corpus, reader: RecordReader) -> None:
    """Raise CorpusError for a JSON list (its last line may read as a document), and for a text file of JSON objects
    without --format txt."""
    if corpus.run is not None:
        return
    hint = None
    if corpus.read_as is Format.JSONL:
        hint = guess_list(reader.first_lines())
    elif corpus.read_as is Format.TXT and corpus.format is None:
        hint = guess_by_text(reader.first_lines())
    if hint:
        raise CorpusError(f"{corpus.source}: {hint}")
