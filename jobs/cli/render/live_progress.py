"""Following a job until it ends: on a terminal one line that moves, elsewhere a line now and then."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from jobs.choices import PAUSED
from jobs.cli.render.task_words import WORDS
from jobs.cli.render.terminal import Voice, say, visible, voice
from jobs.errors import TransientError
from jobs.formatting import count, counted, duration, percent
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.report.speed import RecentSpeed
from jobs.store.waiting import Ahead, ahead_of, is_served
from jobs.store.worker_registry import any_alive

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

POLL_S = 0.5
SILENCE_S = 60.0  # a worker that was not heard of for so long counts as gone
PATIENCE_S = 120.0  # a database that does not answer for so long is not waited for
LINE_EVERY_S = 10.0
SHORTEST_BAR = 6  # columns, with a space on either side
HINT_AFTER_S = 3.0  # a worker that has just been started needs a moment


class Progress(Protocol):
    """Where a job's progress is shown."""

    def update(self, job: JobSummary, note: str = "") -> None: ...


def follow(
    database: Database, job_id: int, update: Callable[[JobSummary], None], *, timeout_s: float | None = None
) -> JobSummary:
    """Read a job again and again until it has ended or the time is up; the last summary. A database that is away for
    a while (locked, restarted) is waited for."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    answered_at = time.monotonic()
    while True:
        try:
            with database.reading() as connection:
                job = find_job(connection, str(job_id))
        except TransientError:
            now = time.monotonic()
            if now - answered_at > PATIENCE_S or (deadline is not None and now >= deadline):
                raise
            time.sleep(POLL_S)
            continue
        answered_at = time.monotonic()
        update(job)
        if job.has_ended or (deadline is not None and time.monotonic() >= deadline):
            return job
        left = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
        time.sleep(min(POLL_S, left))


class Turn:
    """While nobody works on a job: what is ahead of it. Says once what that is."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_told = False

    def wait(self, job: JobSummary) -> str:
        """In few words for the line of progress; empty where nothing is ahead."""
        ahead = ahead_of(self._database, job.job_id)
        if not ahead.jobs:
            return ""
        if not self._is_told:
            say(tell_ahead(ahead))
        self._is_told = True
        return f"waits for {counted(ahead.jobs, 'job')} ahead of it"


class StuckHint:
    """Says once why a job does not move."""

    def __init__(self, database: Database) -> None:
        self.note = ""  # for the line of progress
        self._database = database
        self._turn = Turn(database)
        self._since = time.monotonic()
        self._said: str | None = None

    def update(self, job: JobSummary) -> None:
        if time.monotonic() - self._since < HINT_AFTER_S or job.has_ended:
            return
        self._since = time.monotonic()
        hint = None
        if job.shown_state == PAUSED:
            reason = f" ({job.reason})" if job.reason else ""
            hint = f"Job {job.label} is paused{reason}. To go on: kvjobs resume {job.job_id}"
        elif job.shards_open:
            with contextlib.suppress(TransientError):  # nobody knows
                hint = tell_unserved(self._database, job.queue, job.model)
                self.note = self._turn.wait(job) if hint is None else ""
        if hint and hint != self._said:
            say(hint)
        self._said = hint


def tell_unserved(database: Database, queue: str, model: str) -> str | None:
    """What to do where no worker serves the jobs of a queue and model; None where one does."""
    if is_served(database, queue, model, SILENCE_S):
        return None
    if not any_alive(database, SILENCE_S):
        return "No worker is running. To start one: kvjobs worker"
    return f"No worker serves the queue {queue} now; what each one serves: kvjobs worker ls"


def tell_ahead(ahead: Ahead) -> str:
    """`3 jobs with 600 documents are ahead of it.`"""
    verb = "is" if ahead.jobs == 1 else "are"
    return f"{counted(ahead.jobs, 'job')} with {counted(ahead.documents, 'document')} {verb} ahead of it."


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress on standard error: alive on a terminal, in lines elsewhere."""
    if not sys.stderr.isatty() or voice() is not Voice.PLAIN:
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[told]}", markup=False),
    )
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Bars(*columns, console=console, expand=True, refresh_per_second=4) as bars:
        yield _Bar(bars, bars.add_task("", total=None, told=""))


class _Bar:
    """One moving line."""

    def __init__(self, bars: "Bars", task: "TaskID") -> None:
        self._bars = bars
        self._task = task
        self._pace = RecentSpeed()

    def update(self, job: JobSummary, note: str = "") -> None:
        self._pace.add(job, time.monotonic())
        room = self._bars.console.width - SHORTEST_BAR
        name = visible(f"job {job.label}")
        if len(name) + len(tell(job, self._pace, note, room=0)) > room:
            name = f"job {job.job_id}"
        self._bars.update(
            self._task,
            description=name,
            total=job.documents or None,
            completed=job.ended_documents,
            told=visible(tell(job, self._pace, note, room - len(name))),
        )


class _Lines:
    """A line when the state changes, and every few seconds."""

    def __init__(self) -> None:
        self._pace = RecentSpeed()
        self._state: tuple[str, str] | None = None
        self._next = 0.0

    def update(self, job: JobSummary, note: str = "") -> None:
        now = time.monotonic()
        self._pace.add(job, now)
        if (job.shown_state, note) == self._state and now < self._next:
            return
        self._state, self._next = (job.shown_state, note), now + LINE_EVERY_S
        say(f"job {job.label}: {tell(job, self._pace, note)}")


def tell(job: JobSummary, pace: RecentSpeed, note: str = "", room: int | None = None) -> str:
    """How far, how fast, how long still, what failed; or why it has not begun. What has no room in so many characters
    is left out, the least important first: a number is never cut."""
    done = f"{count(job.ended_documents)}/{WORDS[job.task].counted(job.documents)} ({percent(job.share_done)})"
    if note and not job.has_ended:
        return f"{done}, {note}"
    parts = {"done": done, "tokens": f"{count(job.tokens)} tokens"}
    speed = job.tokens_per_s if job.has_ended else pace.tokens_per_s
    if speed is not None:
        parts["speed"] = f"{speed:,.0f} tokens/s"
    if job.has_ended:
        if job.elapsed_s is not None:  # none: no worker has begun it
            parts["time"] = f"in {duration(job.elapsed_s)}"
    elif pace.eta_s is not None:
        parts["time"] = f"{duration(pace.eta_s)} to go"
    if job.unsuccessful:
        parts["failed"] = f"{count(job.unsuccessful)} not ok"
    if job.shown_state != "running":
        parts["state"] = job.shown_state
    for name in ("tokens", "speed", "time", "state"):
        if room is not None and len(", ".join(parts.values())) > room:
            parts.pop(name, None)
    return ", ".join(parts.values())
