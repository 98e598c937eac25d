"""`kvjobs` as a user runs it: the installed script, in processes of its own."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KVJOBS = Path(sys.executable).with_name("kvjobs")
PATIENCE_S = 120  # within which a process does what it must, however busy the machine: no claim about speed


@dataclass(frozen=True)
class Machine:
    """A home with an empty database, and a working folder outside of the checkout. Processes get the environment of the
    test and `variables`."""

    home: Path
    folder: Path
    _started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def kvjobs(
        self, *arguments: str, timeout: float = PATIENCE_S, stdin: str = "", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            [KVJOBS, *arguments],
            env=os.environ | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a command, which gets SIGTERM at the end of the test if it still runs."""
        process = subprocess.Popen(
            [KVJOBS, *arguments],
            env=os.environ | variables,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self._started.append(process)
        return process

    def worker(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a worker, and wait until it has begun to look for work."""
        known = self.ask("select count(*) from workers")
        worker = self.start("worker", *arguments, **variables)
        until(lambda: self.ask("select count(*) from workers") != known)
        return worker

    def ask(self, sql: str) -> list[Any]:
        """The rows of a query on the database."""
        with closing(sqlite3.connect(self.home / "kvjobs.db", timeout=PATIENCE_S)) as connection:
            return connection.execute(sql).fetchall()

    def succeeded(self) -> int:
        """The number of documents of all jobs that have a result."""
        return int(self.ask("select coalesce(sum(succeeded), 0) from job_counts")[0][0])

    def is_done(self) -> bool:
        """Whether all jobs are done."""
        return all(state == "done" for (state,) in self.ask("select state from jobs"))

    def end(self) -> None:
        """Send SIGTERM to all started processes that still run, and wait for them."""
        running = [process for process in self._started if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.communicate(timeout=PATIENCE_S)
        for process in self._started:  # a process that ended by itself still has open pipes
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def until(condition: Callable[[], object], timeout: float = PATIENCE_S) -> None:
    """Wait until the condition is true; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.02
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout} s"
        time.sleep(pause)
        pause = min(0.1, pause * 1.2)  # what takes long is not made longer by those who ask


def freeze(pid: int) -> None:
    """SIGSTOP, and wait until none of its threads runs."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(
        lambda: all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads.iterdir())
    )


def child_of(pid: int) -> int | None:
    """The pid of the first child process; None if there is none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None
