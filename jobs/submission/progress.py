"""Progress of a submit while it reads its corpus.

Knows: counts. Does not know: how they are shown.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.corpus.reading import RecordReader
    from jobs.corpus.unpacking import Contents

REPORT_EVERY_S = 0.2  # while no batch is complete


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestProgress:
    """How far a submit has come: reported after each batch that is committed, and now and then between batches."""

    job_id: int | None  # none before the first document is found
    documents: int
    rejected: int
    lines: int  # of the file, read so far; blank ones too
    bytes_read: int
    num_bytes: int  # of the whole corpus as it is stored


OnProgress = Callable[[IngestProgress], None]


class ProgressReporter:
    """Calls `on_progress`. `saw_bytes` is called with each piece of the corpus, so that progress is reported through
    millions of lines without a document too."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._reader: RecordReader | None = None
        self._num_bytes = 0
        self._last: tuple[int | None, int, int] = (None, 0, 0)
        self._reported_at = time.monotonic()

    def begin(self, reader: "RecordReader", contents: "Contents") -> None:
        """Report on this reader from now on."""
        self._reader, self._num_bytes, self._reported_at = reader, contents.num_bytes, time.monotonic()

    def saw_bytes(self, _piece: bytes) -> None:
        """Report the same counts again, further on in the file, if the last report is old enough."""
        if time.monotonic() - self._reported_at >= REPORT_EVERY_S:
            self.report(*self._last)

    def report(self, job_id: int | None, documents: int, rejected: int) -> None:
        """Report so many documents: read, and committed where there is a job."""
        self._last, self._reported_at = (job_id, documents, rejected), time.monotonic()
        if self._on_progress and self._reader:
            self._on_progress(
                IngestProgress(
                    job_id=job_id,
                    documents=documents,
                    rejected=rejected,
                    lines=self._reader.lines_read,
                    bytes_read=self._reader.bytes_read,
                    num_bytes=self._num_bytes,
                )
            )
