"""What goes wrong while a file of a corpus is read, in one sentence that names it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.corpus.unpacking import DAMAGED
from jobs.errors import CorpusError

NO_FILE = "there is no such file; check the path"


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Raise a CorpusError that begins with `source` for whatever goes wrong with the file."""
    try:
        yield
    except CorpusError as error:
        raise error if str(error).startswith(source) else CorpusError(f"{source}: {error}") from error
    except FileNotFoundError:
        raise CorpusError(f"{source}: {NO_FILE}") from None
    except DAMAGED as error:
        what = "the packed data breaks off" if isinstance(error, EOFError) else f"it cannot be unpacked ({error})"
        raise CorpusError(f"{source}: {what}; fetch or make the file again") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{source} cannot be read: {reason}; check it and its permissions") from None


def folder_advice(path: str | os.PathLike[str]) -> str:
    """What to do about a folder; one as BEIR has them wants a run."""
    if os.path.exists(os.path.join(path, "queries.jsonl")):
        return "that is a folder as BEIR has them; to rerank it, name the first stage's run: --task rerank --run FILE"
    return "that is a folder; name a file in it"
