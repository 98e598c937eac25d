"""The digests of all outputs: made on a database of its own, stored, and compared."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from jobs.store.database import Database
from tests.databases import BOTH, migrated, own_database, without_fsync
from tests.golden.bytes.made_jobs import make_jobs
from tests.golden.bytes.outputs import outputs
from tests.golden.bytes.pins import Clock, pinned

STORED = Path(__file__).with_name("digests.json")
DIGITS = 12
ON_BOTH = (
    "both databases"  # what is the same on both; the rest is SQL of the user, answered in the database's own types
)


def make_outputs(dialect: str, home: Path, *, is_whole: bool = True) -> dict[str, bytes]:
    """Every output by its name, of a new database; `home` is an empty folder. Not whole: without the further forms of
    the same rows."""
    with ExitStack() as stack:
        address = f"sqlite:///{home}/kvjobs.db" if dialect == "sqlite" else stack.enter_context(own_database())
        stack.enter_context(pinned(home))
        database = Database.open(migrated(address))
        stack.callback(database.close)
        clock = Clock(without_fsync(database) if database.is_sqlite else database)
        stack.enter_context(clock.shown())
        make_jobs(database, home, clock)
        found = list(outputs(database, home, is_whole=is_whole))
    assert len(dict(found)) == len(found), "two outputs have one name"
    return dict(found)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def stored_digests(dialect: str) -> dict[str, str]:
    """Those that are expected on one of the databases, by name."""
    stored: dict[str, dict[str, str]] = json.loads(STORED.read_text())
    return stored[ON_BOTH] | stored[dialect]


def store_digests(found: Mapping[str, Mapping[str, bytes]]) -> None:
    """Write what is expected from now on. `found`: the outputs of each database."""
    names = [{name: digest(content) for name, content in found[dialect].items()} for dialect in BOTH]
    same = dict(sorted(names[0].items() & names[1].items()))
    own = {
        dialect: {name: made for name, made in sorted(of_dialect.items()) if name not in same}
        for dialect, of_dialect in zip(BOTH, names, strict=True)
    }
    STORED.write_text(json.dumps({ON_BOTH: same} | own, indent=0, ensure_ascii=False) + "\n")


def write_outputs(found: Mapping[str, bytes], folder: Path) -> None:
    """A file for each output, below the folder."""
    for name, content in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
