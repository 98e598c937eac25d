"""A trial: one corpus, one home folder and real processes, which a scenario disturbs and then checks.

Knows: how to start and find processes of kvjobs, follow a job through SQL, and end every process that it started.
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
from jobs.store.schema.current_sums import current
from jobs.store.schema.lasting_tables import MemoryEntry
from jobs.store.schema.tables import Job, JobCounts, ShardEvent
from tests.faults.corpus import Corpus
from tests.faults.invariants import find_violations, redone_documents
from tests.faults.processes import Command, kill_all
from tests.faults.servers import PostgresServer, RedisServer

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))
TIMEOUT_S = 150.0
LOOK_EVERY_S = 0.1


class TrialFailed(AssertionError):
    """A step that the scenario depends on did not happen in time."""


@dataclass
class Trial:
    """One run of a scenario. Broken invariants are collected in `violations`."""

    folder: Path
    corpus: Corpus
    rng: random.Random
    long: bool
    postgres: PostgresServer | None = None
    redis: RedisServer | None = None
    environment: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    deaths: int = 0  # processes killed, or suspended for longer than a lease
    recoveries: list[float] = field(default_factory=list)  # seconds; filled by `check`
    redone: int = 0  # documents that were computed again; filled by `check`
    batch: int = 0  # ... documents of the largest batch
    longest_gap_s: float = 0.0  # ... between one recorded batch and the next
    prefix: tuple[str, ...] = ()  # put before every worker's command, to run it in a namespace
    _ended_faults: list[datetime] = field(default_factory=list)
    _commands: list[Command] = field(default_factory=list)
    _kept: list[tuple[Command, dict[str, str]]] = field(default_factory=list)
    _reader: Database | None = None
    job_id: int = 1

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
        own = {
            "KVJOBS_HOME": str(self.home),
            "KVJOBS_LANES": "2",
            "KVJOBS_LEASE_S": "10",
            "KVJOBS_HEARTBEAT_S": "1",
            "KVJOBS_POLL_S": "0.3",
            "KVJOBS_BUSY_TIMEOUT_S": "5",
            "KVJOBS_FAILPOINTS_LOG": str(self.folder / "failpoints"),
        }
        if self.postgres:
            own["KVJOBS_DATABASE"] = self.postgres.url
        if self.redis:
            own["KVJOBS_BROKER"] = self.redis.url
        self.environment = kept | own | self.environment

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def python_path(self, folder: Path) -> str:
        """PYTHONPATH with this folder first."""
        return os.pathsep.join(filter(None, [str(folder), self.environment.get("PYTHONPATH")]))

    @property
    def database_url(self) -> str:
        """The database for the trial's own queries, which bypass any proxy."""
        return self.postgres.url if self.postgres else f"sqlite:///{self.home / 'kvjobs.db'}"

    @property
    def database(self) -> Database:
        if self._reader is None:
            self._reader = Database.connect(self.database_url, busy_timeout_s=30)
        return self._reader

    # Processes of kvjobs

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

    def start(self, *arguments: str, **variables: str) -> Command:
        """Start a command; its output goes to the trial's log."""
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
        command = Command(process)
        self._commands.append(command)
        return command

    def worker(self, **variables: str) -> Command:
        """Start a worker, which is not restarted when it ends."""
        return self.start("worker", **variables)

    def keep_workers(self, number: int, **variables: str) -> None:
        """Start this number of workers and restart each one that ends, as a service manager would."""
        self._kept += [(self.worker(**variables), variables) for _ in range(number)]

    def restart_ended(self) -> list[Command]:
        """Restart the workers of `keep_workers` that have ended; all of them."""
        self._kept = [(command if command.is_running else self.worker(**its), its) for command, its in self._kept]
        return [command for command, _ in self._kept]

    def end(self) -> None:
        """End every process that carries this trial's home in its environment."""
        if self._reader is not None:
            self._reader.close()
        self._kept = []
        kill_all(f"KVJOBS_HOME={self.home}")
        for command in self._commands:
            command.process.wait()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def logged(self, pattern: str) -> bool:
        """Whether the log of the processes matches."""
        return bool(re.search(pattern, self.log.read_text(errors="replace"))) if self.log.exists() else False

    def hits(self) -> Counter[str]:
        """How often each failpoint was triggered."""
        path = self.folder / "failpoints"
        return Counter(line.split(":")[0] for line in path.read_text().splitlines()) if path.exists() else Counter()

    # The job

    def make_tables(self) -> None:
        """Create the tables: on SQLite any command would do so, on PostgreSQL only `db upgrade` does."""
        done = self.kvjobs("db", "upgrade")
        if done.returncode:
            raise TrialFailed(f"kvjobs db upgrade ended with {done.returncode}: {done.stderr}")

    def submit(self, *options: str, corpus: Path | None = None, **variables: str) -> None:
        """Submit the corpus, or another one."""
        done = self.kvjobs("submit", str(corpus or self.corpus.path), *options, **variables)
        self.expect(done.returncode == 0, f"submit ended with {done.returncode}: {done.stderr.strip()[-400:]}")

    def fill_memory(self) -> None:
        """Fill the translation memory from the undisturbed run, so that no segment is left for the model."""
        with self.database.writing() as connection:
            connection.execute(insert(MemoryEntry), self.corpus.memory())

    def query(self, statement: Any) -> list[Any] | None:
        """The rows, or None if the database does not answer."""
        try:
            with self.database.reading() as connection:
                return list(connection.execute(statement).all())
        except (KvjobsError, SQLAlchemyError):
            return None

    def num_ended(self) -> int:
        """The number of ended documents by the job's counters; 0 if the database does not answer."""
        counts = current(JobCounts)
        total = counts.succeeded + counts.failed + counts.quarantined + counts.cancelled
        rows = self.query(select(total).where(counts.job_id == self.job_id))
        return int(rows[0][0]) if rows else 0

    def state(self) -> str | None:
        """The job's state; `paused` for one that is running and paused."""
        rows = self.query(select(Job.state, Job.paused).where(Job.id == self.job_id))
        return None if not rows else "paused" if rows[0].paused and rows[0].state == "running" else str(rows[0].state)

    def events(self, *names: str) -> list[Any]:
        """The events of these names, in the order in which they were committed."""
        event = ShardEvent
        chosen = select(event.event, event.shard_id, event.epoch, event.worker_id, event.documents, event.at)
        chosen = chosen.where(event.job_id == self.job_id, event.event.in_(names)).order_by(event.id)
        return self.query(chosen) or []

    def until(self, condition: Callable[[], object], what: str, timeout: float = TIMEOUT_S) -> None:
        """Wait for the condition; raise TrialFailed if it does not hold in time."""
        deadline = time.monotonic() + timeout
        while not condition():
            self.restart_ended()
            if self.logged("SyntaxError|ModuleNotFoundError|ImportError"):
                raise TrialFailed(f"a process of kvjobs does not start\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise TrialFailed(f"{what}: not within {timeout:.0f} s\n{self.log_tail()}")
            time.sleep(LOOK_EVERY_S)

    def until_num_ended(self, number: int, timeout: float = TIMEOUT_S) -> None:
        """Wait until this number of documents have ended."""
        self.until(lambda: self.num_ended() >= number, f"{number} documents have ended", timeout)

    def until_over(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the job has ended. Raises TrialFailed at once if it is paused: no scenario resumes it later."""

        def over() -> bool:
            state = self.state()
            if state == "paused":
                raise TrialFailed(f"the job was paused\n{self.log_tail()}")
            return state in ("done", "cancelled", "failed")

        self.until(over, "the job has ended", timeout)

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""

    # Faults and checks

    def expect(self, holds: object, otherwise: str) -> None:
        """Record a violation unless it holds; the scenario continues."""
        if not holds:
            self.violations.append(otherwise)

    def fault_ended(self) -> None:
        """The run may recover from now on: the time to the next recorded batch counts from here."""
        self._ended_faults.append(datetime.now(UTC))

    @property
    def faults(self) -> int:
        """Calls of `fault_ended` since the last `check`."""
        return len(self._ended_faults)

    def kill(self, pid: int, *, holds_leases: bool = True) -> None:
        """kill -9. `holds_leases`: its current batches have to be computed again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.deaths += holds_leases
            self.fault_ended()

    def check(self, *, baseline: bytes | None = None, deaths: int | None = None) -> None:
        """Export the job and record every violated invariant."""
        exported = self.kvjobs("export", str(self.job_id), "-o", "exported.jsonl")
        self.expect(exported.returncode in (0, 3), f"export ended with {exported.returncode}: {exported.stderr}")
        with contextlib.suppress(FileNotFoundError):
            self.violations += find_violations(
                self.database,
                self.job_id,
                (self.folder / "exported.jsonl").read_bytes(),
                self.corpus.baseline() if baseline is None else baseline,
                deaths=self.deaths if deaths is None else deaths,
            )
        self.expect(not self.logged(r"Traceback"), f"a process printed a traceback:\n{self.log_tail()}")
        lost = redone_documents(self.database, self.job_id)
        self.redone, self.batch = max(self.redone, lost.documents), max(self.batch, lost.batch)
        recorded = [event.at for event in self.events("recorded")]
        gaps = [(after - before).total_seconds() for before, after in pairwise(recorded)]
        self.longest_gap_s = max([self.longest_gap_s, *gaps])
        for moment in self._ended_faults:
            following = next((at for at in recorded if at > moment - timedelta(milliseconds=1)), None)
            if following:
                self.recoveries.append((following - moment).total_seconds())
        self._ended_faults.clear()  # another job may follow
