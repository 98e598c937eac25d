"""Errors of reading a corpus as one sentence that names the file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.compression import PACKINGS
from jobs.corpus.unpacking import DAMAGED
from jobs.errors import CorpusError

NO_FILE = "there is no such file; check the path"


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Raise errors of the file as a CorpusError that begins with `source`."""
    try:
        yield
    except CorpusError as error:
        raise error if str(error).startswith(source) else CorpusError(f"{source}: {error}") from error
    except FileNotFoundError:
        raise CorpusError(f"{source}: {NO_FILE}") from None
    except DAMAGED as error:
        end, bad = "the compressed data ends too early", f"it cannot be decompressed ({error})"
        raise CorpusError(
            f"{source}: {end if isinstance(error, EOFError) else bad}; fetch or write the file again"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{source} cannot be read: {reason}; check it and its permissions") from None


def is_beir(folder: str) -> bool:
    """Whether a folder has the layout of BEIR: queries beside a corpus."""
    return all(
        any(os.path.exists(os.path.join(folder, f"{name}.jsonl{packing}")) for packing in ("", *PACKINGS))
        for name in ("queries", "corpus")
    )


BEIR_ADVICE = (
    "this is a BEIR folder; to rerank it, name the first stage's run: --task rerank --run FILE (for its texts alone, "
    "name its corpus.jsonl)"
)
