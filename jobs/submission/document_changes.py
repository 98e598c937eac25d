"""What a corpus says of single documents, when they become those of a job: the route of their language, options of
their own.

Knows: readers, and what changes a document. Does not know: models, formats, tables.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import RecordReader
from jobs.documents import Document, LineName, Record
from jobs.spec import JobSpec
from jobs.submission.document_routes import router_of
from jobs.submission.own_fields import own_fields_of

# A document, and what names a line of the corpus for people -> the document as the job has it, or why it has not.
Change = Callable[[Document, LineName], Record]


def changes_of(corpus: Corpus, spec: JobSpec) -> list[Change]:
    """What happens to each document of a corpus."""
    router, fields = router_of(corpus, spec), own_fields_of(corpus)
    return [*([router.routed] if router else ()), *([fields.applied] if fields else ())]


def changed(record: Record, changes: Sequence[Change], line_name: LineName) -> Record:
    """A record with all changes; a rejected one stays as it is."""
    for change in changes:
        if type(record) is Document:
            record = change(record, line_name)
    return record


@dataclass(frozen=True, slots=True)
class ChangedRecords:
    """A reader of a corpus whose documents are as the job has them."""

    reader: RecordReader
    changes: Sequence[Change]

    @property
    def source(self) -> str:
        return self.reader.source

    @property
    def lines_read(self) -> int:
        return self.reader.lines_read

    @property
    def bytes_read(self) -> int:
        return self.reader.bytes_read

    def digest(self) -> str:
        return self.reader.digest()

    def first_lines(self) -> list[bytes]:
        return self.reader.first_lines()

    def line_name(self, line: int) -> str:
        return self.reader.line_name(line)

    def __iter__(self) -> Iterator[Record]:
        for record in self.reader:
            yield changed(record, self.changes, self.line_name)


def with_changes(reader: RecordReader, corpus: Corpus, spec: JobSpec) -> RecordReader:
    """The reader itself, or where the corpus says something of single documents, a reader of these as the job has
    them."""
    changes = changes_of(corpus, spec)
    return ChangedRecords(reader, changes) if changes else reader
