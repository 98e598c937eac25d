"""Reading a corpus: a file, a folder of files, or a BEIR folder with a run.

Knows: which reader a corpus has. Does not know: formats, tables.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobs.corpus.beir import BeirReader, hash_files
from jobs.corpus.corpus import Corpus, Format
from jobs.corpus.file_reader import Contents, hash_contents, reader_of
from jobs.corpus.folder.reader import FolderReader, hash_folder
from jobs.corpus.opening import open_bytes
from jobs.corpus.record_reader import RecordReader
from jobs.corpus.unpacking import OnBytes
from jobs.documents import Record


def read_corpus(corpus: Corpus) -> Iterator[Record]:
    """The records of the corpus, in order, as they are read. Raises CorpusError where the corpus as a whole cannot be
    read or is empty."""
    with ExitStack() as stack:
        if corpus.beir_run:
            yield from BeirReader(corpus.beir_run, Path(tempfile.gettempdir()))
        elif corpus.files is not None:
            yield from FolderReader(corpus, corpus.files)
        else:
            spool = (
                Path(stack.enter_context(tempfile.TemporaryDirectory())) if corpus.read_as is Format.PARQUET else None
            )
            yield from reader_of(corpus, stack.enter_context(open_bytes(corpus, spool)))


@contextmanager
def open_corpus(
    corpus: Corpus, spool: Path, on_bytes: OnBytes | None = None
) -> Iterator[tuple[Contents, RecordReader]]:
    """Hash the corpus; then its contents, and a reader of its records. Temporary files are in the folder `spool`;
    `on_bytes` is called with each piece that the reader decompresses."""
    if corpus.beir_run:
        yield Contents(*hash_files(corpus.beir_run)), BeirReader(corpus.beir_run, spool)
    elif corpus.files is not None:
        yield hash_folder(corpus, corpus.files), FolderReader(corpus, corpus.files, on_bytes)
    else:
        with open_bytes(corpus, spool) as raw:
            yield hash_contents(corpus, raw), reader_of(corpus, raw, on_bytes)
