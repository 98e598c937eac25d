"""What somebody sends as a corpus, by what it is called: documents, or files that come back translated.

corpus.jsonl.gz, no name       documents
app.po                         a file
manual.zip, manual.tar.gz      the files in it
several                        files
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import BinaryIO

from jobs.corpus.corpus_format import Format, format_of
from jobs.corpus.translatable.archives import unpack
from jobs.corpus.translatable.received_files import ReceivedFiles, is_archive, most_unpacked, not_written, stem_of
from jobs.corpus.unpacking import HEAD_BYTES
from jobs.errors import SpecError
from jobs.files.formats import suffix_of
from jobs.operations.plan import CorpusFile
from jobs.submission.job_options import SubmitRequest
from jobs.system.temporary_folder import temporary_folder

PREFIX = "kvjobs-files-"  # of folders in the spool
PIECE = 1 << 20
ZIP = b"PK\x03\x04"


@dataclass(slots=True)
class SentFile:
    """A file of what was sent."""

    name: str  # as the sender calls it
    num_bytes: int = 0


def are_files(sent: Sequence[SentFile], form: str | None) -> bool:
    """Whether these are files that come back translated, rather than documents. `form`: the format that was asked for,
    if any. Raises SpecError where that contradicts it."""
    if len(sent) > 1 and form not in (None, Format.FILES):
        raise SpecError(
            f"there are {len(sent):,} files, which are read as files that come back translated; leave --format out, or "
            "send one file of documents"
        )
    if form is not None:
        return form == Format.FILES
    return len(sent) > 1 or any(is_archive(file.name) or suffix_of(file.name) for file in sent)


@contextmanager
def received_corpus(
    request: SubmitRequest, sent: Sequence[SentFile], content: BinaryIO, spool: Path, source: str
) -> Iterator[tuple[SubmitRequest, CorpusFile]]:
    """A submit with the corpus that was sent, for as long as the block lasts. `content` has the bytes of all files, one
    behind the other; `source`: what the corpus is called in messages.

    Raises CorpusError for an archive or a name that is refused, SpecError for a format that contradicts the names,
    TransientError where the disk refuses.
    """
    form = request.job.format
    if not are_files(sent, form):
        if form is None and sent and not sent[0].name:
            _refuse_archive(content)
        if form is None and sent and (named := format_of(PurePath(stem_of(sent[0].name)))):
            request = replace(request, job=replace(request.job, format=named.value))
        yield request, CorpusFile(path="-", stream=content, source=source)
        return
    if not any(file.name for file in sent):
        raise SpecError("--format files needs the name of what is sent, which says its format: app.po, or manual.zip")
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(spool, PREFIX))
        except OSError as error:
            raise not_written(error) from None
        path = _put(sent, content, folder, spool)
        request = replace(request, job=replace(request.job, format=Format.FILES.value))
        yield request, CorpusFile(path=str(path), source=source)


def _refuse_archive(content: BinaryIO) -> None:
    here = content.tell()  # more of it may still be written there
    content.seek(0)
    head = content.read(HEAD_BYTES)
    content.seek(here)
    if head.startswith(ZIP) or head[257:262] == b"ustar":
        raise SpecError(
            "the body is an archive, or a file of office programs, and nothing says which: name it by "
            "?filename=manual.zip (or .tar, .docx, .odt) to have the files in it translated; save a table as csv"
        )


def _put(sent: Sequence[SentFile], content: BinaryIO, folder: Path, spool: Path) -> Path:
    """Put the files into the folder; the folder, or the one file in it."""
    content.seek(0)
    if len(sent) == 1 and is_archive(sent[0].name):
        unpack(content, stem_of(sent[0].name), ReceivedFiles(folder, most_unpacked(sent[0].num_bytes)), spool)
        return folder
    received = ReceivedFiles(folder)
    if len(sent) == 1 and "/" not in sent[0].name:  # else a browser sends a folder, which happens to have one file
        return received.add(stem_of(sent[0].name), sent[0].num_bytes, _pieces(content, sent[0].num_bytes))
    for file in sent:
        received.add(file.name, file.num_bytes, _pieces(content, file.num_bytes))
    return folder


def _pieces(content: BinaryIO, num_bytes: int) -> Iterator[bytes]:
    while num_bytes and (piece := content.read(min(PIECE, num_bytes))):
        num_bytes -= len(piece)
        yield piece
