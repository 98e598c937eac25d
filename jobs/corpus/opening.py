"""Opening a corpus: its stored bytes, from a file or from standard input."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from jobs.corpus.corpus import Corpus
from jobs.corpus.read_errors import naming
from jobs.corpus.unpacking import read_once
from jobs.errors import CorpusError, KvjobsError
from jobs.private import make_folder

CHUNK_BYTES = 1 << 20


@contextmanager
def open_bytes(corpus: Corpus, spool: Path | None = None) -> Iterator[BinaryIO]:
    """The stored bytes of the corpus. With `spool` they can be read more than once: a pipe is first copied into an
    unlinked file in this folder, which disappears with the process however it ends."""
    with ExitStack() as stack:
        raw = _open(corpus)
        if not corpus.is_stdin:
            stack.enter_context(raw)
        if spool is not None and not corpus.is_file:
            raw = stack.enter_context(_spooled(raw, corpus, spool))
        yield raw


def _open(corpus: Corpus) -> BinaryIO:
    if corpus.is_stdin:
        if sys.stdin is None:
            raise CorpusError("there is no standard input; name a file")
        return sys.stdin.buffer
    with naming(corpus.source):
        try:
            return open(corpus.path, "rb", buffering=0)
        except ValueError as error:
            raise CorpusError(f"this is not a path: {error}") from None


@contextmanager
def _spooled(raw: BinaryIO, corpus: Corpus, spool: Path) -> Iterator[BinaryIO]:
    try:
        make_folder(spool)
        copy = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115  # closed below: this `try` is for the opening alone
    except OSError as error:
        raise KvjobsError(f"{corpus.source} cannot be copied to {spool}: {error.strerror}; set KVJOBS_HOME") from None
    read = read_once(raw)
    with copy:
        while True:
            with naming(corpus.source):
                chunk = read(CHUNK_BYTES)
            if not chunk:
                break
            try:
                copy.write(chunk)
                copy.flush()
            except OSError as error:
                raise KvjobsError(
                    f"{corpus.source} cannot be copied to {spool}: {error.strerror}; free some space there, or write "
                    "the corpus to a file and submit that"
                ) from None
        copy.seek(0)
        yield copy
