"""One corpus, one home, real processes, and a fault: what a scenario needs to disturb a run and to judge it.

Knows: how to start and find our processes, to follow a job through SQL, to end everything that it began.
Does not know: which faults there are (the scenarios).
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import SQLAlchemyError

from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.schema.tables import Job, JobCounts, MemoryEntry, ShardEvent
from tests.faults.corpus import Corpus
from tests.faults.invariants import redone_documents, violations
from tests.faults.processes import Hand, end_all
from tests.faults.servers import PostgresServer, RedisServer

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))
PATIENCE_S = 150.0
LOOK_EVERY_S = 0.1


class Broken(AssertionError):
    """Something that a scenario counts on did not happen."""


@dataclass
class Trial:
    """A run of one scenario. What it notices goes to `complaints`, what the database and the export say too."""

    folder: Path
    corpus: Corpus
    chance: random.Random
    long: bool
    postgres: PostgresServer | None = None
    redis: RedisServer | None = None
    environment: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    deaths: int = 0  # processes that were made to die, or to be silent for longer than a lease
    recoveries: list[float] = field(default_factory=list)  # filled by `judge`
    redone: int = 0  # documents that were computed for nothing; filled by `judge`
    batch: int = 0  # ... documents of the largest batch
    longest_gap_s: float = 0.0  # ... between one recorded batch and the next
    prefix: tuple[str, ...] = ()  # of every worker's command: what runs it elsewhere
    _healed: list[datetime] = field(default_factory=list)
    _hands: list[Hand] = field(default_factory=list)
    _crew: list[tuple[Hand, dict[str, str]]] = field(default_factory=list)
    _reader: Database | None = None
    job_id: int = 1

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
        ours = {
            "KVJOBS_HOME": str(self.home),
            "KVJOBS_LANES": "2",
            "KVJOBS_LEASE_S": "10",
            "KVJOBS_HEARTBEAT_S": "1",
            "KVJOBS_POLL_S": "0.3",
            "KVJOBS_BUSY_TIMEOUT_S": "5",
            "KVJOBS_FAILPOINTS_LOG": str(self.folder / "failpoints"),
        }
        if self.postgres:
            ours["KVJOBS_DATABASE"] = self.postgres.url
        if self.redis:
            ours["KVJOBS_BROKER"] = self.redis.url
        self.environment = kept | ours | self.environment

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def python_path(self, folder: Path) -> str:
        """A folder before all others from which Python imports."""
        return os.pathsep.join(filter(None, [str(folder), self.environment.get("PYTHONPATH")]))

    @property
    def database_url(self) -> str:
        """How the test itself reads, past any proxy."""
        return self.postgres.url if self.postgres else f"sqlite:///{self.home / 'kvjobs.db'}"

    @property
    def database(self) -> Database:
        if self._reader is None:
            self._reader = Database.connect(self.database_url, busy_timeout_s=30)
        return self._reader

    # Our processes

    def kvjobs(self, *arguments: str, timeout: float = 120, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            [KVJOBS, *arguments],
            env=self.environment | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str, **variables: str) -> Hand:
        """Start a command; what it says goes to the trial's log."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.prefix, KVJOBS, *arguments],
                env=self.environment | variables,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        hand = Hand(process)
        self._hands.append(hand)
        return hand

    def worker(self, **variables: str) -> Hand:
        """A worker that goes on until it is told to stop. Nobody starts it again."""
        return self.start("worker", **variables)

    def crew(self, number: int, **variables: str) -> None:
        """So many workers, each of which is started again when it ends, as a service manager would."""
        self._crew += [(self.worker(**variables), variables) for _ in range(number)]

    def tend(self) -> list[Hand]:
        """The crew, complete again."""
        self._crew = [(hand if hand.is_running else self.worker(**its), its) for hand, its in self._crew]
        return [hand for hand, _ in self._crew]

    def end(self) -> None:
        """End every process that carries this trial's home in its environment."""
        if self._reader is not None:
            self._reader.close()
        self._crew = []
        end_all(f"KVJOBS_HOME={self.home}")
        for hand in self._hands:
            hand.process.wait()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def said(self, pattern: str) -> bool:
        """Whether any process said so."""
        return bool(re.search(pattern, self.log.read_text(errors="replace"))) if self.log.exists() else False

    def hits(self) -> Counter[str]:
        """How often each failpoint did something."""
        path = self.folder / "failpoints"
        return Counter(line.split(":")[0] for line in path.read_text().splitlines()) if path.exists() else Counter()

    # The job

    def make_tables(self) -> None:
        """Any command makes them on SQLite; elsewhere they have to be asked for."""
        done = self.kvjobs("db", "upgrade")
        if done.returncode:
            raise Broken(f"kvjobs db upgrade ended with {done.returncode}: {done.stderr}")

    def submit(self, *options: str, corpus: Path | None = None, **variables: str) -> None:
        """Make the corpus, or another one, a job."""
        done = self.kvjobs("submit", str(corpus or self.corpus.path), *options, **variables)
        self.expect(done.returncode == 0, f"submit ended with {done.returncode}: {done.stderr.strip()[-400:]}")

    def remember(self) -> None:
        """Give the translation memory what the undisturbed run learned, so that the model has nothing left to do."""
        with self.database.writing() as connection:
            connection.execute(insert(MemoryEntry), self.corpus.memory())

    def ask(self, statement: Any) -> list[Any] | None:
        """The rows, or None where the database is away."""
        try:
            with self.database.reading() as connection:
                return list(connection.execute(statement).all())
        except (KvjobsError, SQLAlchemyError):
            return None

    def counted(self) -> int:
        """Documents that the counters know to have ended; 0 where nobody can tell."""
        counts = JobCounts
        total = counts.succeeded + counts.failed + counts.quarantined + counts.cancelled
        rows = self.ask(select(total).where(counts.job_id == self.job_id))
        return int(rows[0][0]) if rows else 0

    def state(self) -> str | None:
        """The job's state; `paused` if it is."""
        rows = self.ask(select(Job.state, Job.paused).where(Job.id == self.job_id))
        return None if not rows else "paused" if rows[0].paused else str(rows[0].state)

    def events(self, *names: str) -> list[Any]:
        """The events of these names, in the order in which they were committed."""
        event = ShardEvent
        chosen = select(event.event, event.shard_id, event.epoch, event.worker_id, event.documents, event.at)
        chosen = chosen.where(event.job_id == self.job_id, event.event.in_(names)).order_by(event.id)
        return self.ask(chosen) or []

    def until(self, condition: Callable[[], object], what: str, timeout: float = PATIENCE_S) -> None:
        """Wait; raise Broken where it does not come true."""
        deadline = time.monotonic() + timeout
        while not condition():
            self.tend()
            if self.said("SyntaxError|ModuleNotFoundError|ImportError"):
                raise Broken(f"our processes do not even start\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise Broken(f"{what}: not within {timeout:.0f} s\n{self.last_words()}")
            time.sleep(LOOK_EVERY_S)

    def until_counted(self, number: int, timeout: float = PATIENCE_S) -> None:
        """Wait until so many documents have ended."""
        self.until(lambda: self.counted() >= number, f"{number} documents have ended", timeout)

    def until_over(self, timeout: float = PATIENCE_S) -> None:
        """Wait until the job has ended. Raises Broken at once where it is paused: nobody will resume it."""

        def over() -> bool:
            state = self.state()
            if state == "paused":
                raise Broken(f"the job was paused\n{self.last_words()}")
            return state in ("done", "cancelled", "failed")

        self.until(over, "the job has ended", timeout)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""

    # Disturbing and judging it

    def expect(self, holds: object, otherwise: str) -> None:
        """Complain, and go on."""
        if not holds:
            self.complaints.append(otherwise)

    def healed(self) -> None:
        """From now on the run may recover: how long until the next batch is recorded counts from here."""
        self._healed.append(datetime.now(UTC))

    @property
    def faults(self) -> int:
        """How often the run was to recover since the last `judge`."""
        return len(self._healed)

    def kill(self, pid: int, *, holds_leases: bool = True) -> None:
        """kill -9. `holds_leases`: what it computes has to be done again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.deaths += holds_leases
            self.healed()

    def judge(self, *, baseline: bytes | None = None, deaths: int | None = None) -> None:
        """Export the job and complain of everything that does not hold."""
        exported = self.kvjobs("export", str(self.job_id), "-o", "exported.jsonl")
        self.expect(exported.returncode in (0, 3), f"export ended with {exported.returncode}: {exported.stderr}")
        with contextlib.suppress(FileNotFoundError):
            self.complaints += violations(
                self.database,
                self.job_id,
                (self.folder / "exported.jsonl").read_bytes(),
                self.corpus.baseline() if baseline is None else baseline,
                deaths=self.deaths if deaths is None else deaths,
            )
        self.expect(not self.said(r"Traceback"), f"a process ended in a traceback:\n{self.last_words()}")
        lost = redone_documents(self.database, self.job_id)
        self.redone, self.batch = max(self.redone, lost.documents), max(self.batch, lost.batch)
        recorded = [event.at for event in self.events("recorded")]
        gaps = [(after - before).total_seconds() for before, after in pairwise(recorded)]
        self.longest_gap_s = max([self.longest_gap_s, *gaps])
        for moment in self._healed:
            following = next((at for at in recorded if at > moment - timedelta(milliseconds=1)), None)
            if following:
                self.recoveries.append((following - moment).total_seconds())
        self._healed.clear()  # another job may follow
