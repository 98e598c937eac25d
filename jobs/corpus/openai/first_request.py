"""The first request of a batch file, by which a file is recognized, and which says what its job does.

Knows: files. Does not know: models, tasks of models.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.file_reader import open_bytes
from jobs.corpus.folder import local_files
from jobs.corpus.lines import numbered_lines
from jobs.corpus.openai.request_kind import ENDPOINTS, Endpoint, RequestKind, kinds_of
from jobs.corpus.openai.requests import ID
from jobs.corpus.unpacking import HashedBytes, naming, unpacked
from jobs.errors import CorpusError

MOST_LINES = 1_000  # are searched for a request, where the command says that it is a batch file
LONGEST_LINE = 1 << 24


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """What a batch file asks for."""

    kinds: Sequence[RequestKind]  # the first one, where no model of this machine decides it
    model: str


def find_first_request(corpus: Corpus, *, is_asked: bool) -> FirstRequest | None:
    """The first request; None where the first line is none, so that the corpus is no batch file. `is_asked`: the
    command says that it is one; then it raises CorpusError where no line is a request that can be answered.

    The corpus has no format, or the one of the command. Of a folder, its first file is looked at.
    """
    if not is_asked and (corpus.read_as is not Format.JSONL or corpus.address is not None):
        return None  # what lies elsewhere is not fetched only to be looked at
    for values in _objects(corpus, MOST_LINES):
        is_request = type(values) is dict and {ID, "url", "body"} <= values.keys()
        if is_request and (found := _first(values)) is not None:
            return found
        if not (is_asked or is_request):
            return None
        is_asked = True
    if not is_asked:
        return None
    where = f"among its first {MOST_LINES:,} lines"
    if not _can_be_read_again(corpus):
        where = "in the first 8 KiB of what comes from a pipe (write longer ones to a file)"
    raise CorpusError(
        f"{corpus.source}: no request that can be answered is {where}; a line is "
        f'{{"{ID}": "...", "method": "POST", "url": "...", "body": {{"model": "...", ...}}}}, where url is '
        f"{', '.join(Endpoint)}"
    )


def _first(values: Mapping[str, Any]) -> FirstRequest | None:
    """The request; None for one that cannot be answered."""
    url, body = values["url"], values["body"]
    endpoint = ENDPOINTS.get(url) if type(url) is str else None
    model = body.get("model") if type(body) is dict else None
    if endpoint is None or type(model) is not str or not model:
        return None
    return FirstRequest(kinds_of(endpoint, body), model)


def _objects(corpus: Corpus, most: int) -> Iterator[Any]:
    """The values of the first lines that are not blank; None for a line that is not JSON."""
    lines = _lines(corpus) if _can_be_read_again(corpus) else _stdin_lines() if corpus.is_stdin else ()
    for line in islice((line for line in lines if line is None or line.strip()), most):
        try:
            yield None if line is None else orjson.loads(line)
        except (orjson.JSONDecodeError, RecursionError):
            yield None


def _can_be_read_again(corpus: Corpus) -> bool:
    return corpus.stream is not None or corpus.is_file


def _lines(corpus: Corpus) -> Iterator[bytes | None]:
    several = corpus.files or ([corpus.remote_file] if corpus.remote_file else [])
    with naming(corpus.source), local_files(several[:1], Path(tempfile.gettempdir())) as files:
        part = corpus
        if files:
            part = replace(corpus, path=str(files[0].path), format=corpus.format or Format.JSONL)
        with (
            open_bytes(part) as raw,
            closing(unpacked(HashedBytes(raw), part.packing, encoding=part.decoded_as)) as stream,
        ):
            for _, line in numbered_lines(stream, LONGEST_LINE):
                yield line


def _stdin_lines() -> Iterator[bytes | None]:
    """The whole lines that a pipe holds already; they stay in it, and are read again as the corpus."""
    if sys.stdin is None or sys.stdin.isatty() or not hasattr(sys.stdin.buffer, "peek"):
        return
    for line in sys.stdin.buffer.peek().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield line
