"""How far the reading of a corpus is, for whoever wants to hear it."""

import time
from collections.abc import Callable

from jobs.corpus.beir import BeirReader
from jobs.corpus.reading import Contents, CorpusReader
from jobs.submission.submitted import IngestProgress

TELL_EVERY_S = 0.2  # while no batch is complete

Tell = Callable[[IngestProgress], None]


class Telling:
    """What is told of a reading. `look` sees each piece of the corpus, so that millions of lines that are no documents
    do not pass in silence."""

    def __init__(self, on_progress: Tell | None) -> None:
        self._on_progress = on_progress
        self._reading: CorpusReader | BeirReader | None = None
        self._num_bytes = 0
        self._last: tuple[int | None, int, int] = (None, 0, 0)
        self._told_at = time.monotonic()

    def begin(self, reading: CorpusReader | BeirReader, contents: Contents) -> None:
        """What is told about from now on."""
        self._reading, self._num_bytes, self._told_at = reading, contents.num_bytes, time.monotonic()

    def look(self, _piece: bytes) -> None:
        """Tell the same again, further on in the file."""
        if time.monotonic() - self._told_at >= TELL_EVERY_S:
            self.tell(*self._last)

    def tell(self, job_id: int | None, documents: int, rejected: int) -> None:
        """So many documents are behind us; of a job, safe."""
        self._last, self._told_at = (job_id, documents, rejected), time.monotonic()
        if self._on_progress and self._reading:
            self._on_progress(
                IngestProgress(
                    job_id=job_id,
                    documents=documents,
                    rejected=rejected,
                    lines=self._reading.lines_read,
                    bytes_read=self._reading.bytes_read,
                    num_bytes=self._num_bytes,
                )
            )
