"""The corpus of a trial, and the result of an undisturbed run (on SQLite, by one worker, once per session)."""

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from jobs.store.database import Database
from jobs.store.schema.lasting_tables import MemoryEntry
from tools.demo.examples import lines

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))
SEED = 7
LARGE = 5_000


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """The result of a run without a fault."""

    exported: bytes
    memory: tuple[dict[str, Any], ...]  # what the translation memory learned, as rows
    seconds: float  # of the worker, from its start to its end


@dataclass(frozen=True, slots=True)
class Corpus:
    """Weather bulletins in a file."""

    path: Path
    documents: int

    @classmethod
    def write(cls, path: Path, documents: int) -> "Corpus":
        """Write this number of bulletins; the same number gives the same bytes."""
        path.write_bytes(bulletins(documents))
        return cls(path, documents)

    def baseline(self) -> bytes:
        """The export of an undisturbed run."""
        return undisturbed(self.documents).exported

    def memory(self) -> list[dict[str, Any]]:
        """The translation memory after an undisturbed run, as rows."""
        return list(undisturbed(self.documents).memory)


@functools.cache
def bulletins(documents: int) -> bytes:
    """A corpus as JSON Lines. A large one has one sentence per document: it tests many documents, not much text."""
    whole = lines(documents, seed=SEED, references=False)
    return "".join(whole if documents < LARGE else map(_first_sentence, whole)).encode()


def _first_sentence(line: str) -> str:
    record = json.loads(line)
    record["text"] = re.split(r"(?<=[.!?])\s", record["text"], maxsplit=1)[0]
    return json.dumps(record, ensure_ascii=False) + "\n"


@functools.cache
def undisturbed(documents: int) -> Undisturbed:
    """Run the corpus once without a fault."""
    return run_undisturbed(bulletins(documents))


@functools.cache
def undisturbed_with(documents: int, *options: str) -> bytes:
    """The export of a run without a fault, of a job with these options."""
    return run_undisturbed(bulletins(documents), *options).exported


def run_undisturbed(corpus: bytes, *options: str) -> Undisturbed:
    """As `undisturbed`, for any corpus and options of the submit."""
    folder = Path(tempfile.mkdtemp(prefix="kvjobs-baseline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "corpus.jsonl").write_bytes(corpus)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    environment = kept | {"KVJOBS_HOME": str(folder / "home"), "KVJOBS_LANES": "2"}

    def kvjobs(*arguments: str) -> None:
        subprocess.run([KVJOBS, *arguments], env=environment, cwd=folder, check=True, capture_output=True, timeout=3600)

    kvjobs("submit", "corpus.jsonl", *options)
    started = time.monotonic()
    kvjobs("worker", "--drain")
    seconds = time.monotonic() - started
    kvjobs("export", "1", "-o", "exported.jsonl")
    database = Database.connect(f"sqlite:///{folder / 'home' / 'kvjobs.db'}")
    with database.reading() as connection:
        memory = tuple(dict(row._mapping) for row in connection.execute(select(MemoryEntry.__table__)))
    database.close()
    return Undisturbed((folder / "exported.jsonl").read_bytes(), memory, seconds)
