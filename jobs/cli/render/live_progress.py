"""The progress of a job on standard error: one live line on a terminal, elsewhere a new line every few seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from jobs.choices import AWAITING, state_in_words
from jobs.cli.render.messages import MessageFormat, message_format, print_message
from jobs.store.report.document_counts import NOT_OK
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.timings.speed import RecentSpeed
from jobs.text.formatting import count, counted, duration, figure, percent, visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_EVERY_S = 10.0
SHORTEST_BAR = 6  # columns, with a space on each side


class Progress(Protocol):
    """Shows the progress of a job; `note` says why the job waits."""

    def update(self, job: JobSummary, note: str = "") -> None: ...


@contextmanager
def progress() -> Iterator[Progress]:
    """A display for the progress of one job."""
    if not sys.stderr.isatty() or message_format() is not MessageFormat.PLAIN:
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[text]}", markup=False),
    )
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Bars(*columns, console=console, expand=True, refresh_per_second=4) as bars:
        yield _Bar(bars, bars.add_task("", total=None, text=""))


class _Bar:
    """One live line with a bar."""

    def __init__(self, bars: "Bars", task: "TaskID") -> None:
        self._bars = bars
        self._task = task
        self._speed = RecentSpeed()

    def update(self, job: JobSummary, note: str = "") -> None:
        self._speed.add(job, time.monotonic())
        room = self._bars.console.width - SHORTEST_BAR
        name = visible(f"job {job.label}")
        if len(name) + len(progress_text(job, self._speed, note, room=0)) > room:
            name = f"job {job.job_id}"
        self._bars.update(
            self._task,
            description=name,
            total=job.counts.to_do or None,
            completed=job.counts.done,
            text=visible(progress_text(job, self._speed, note, room - len(name))),
        )


class _Lines:
    """A line when the state changes, and every LINE_EVERY_S seconds."""

    def __init__(self) -> None:
        self._speed = RecentSpeed()
        self._state: tuple[str, str] | None = None
        self._next = 0.0

    def update(self, job: JobSummary, note: str = "") -> None:
        now = time.monotonic()
        self._speed.add(job, now)
        if (job.recorded_state, note) == self._state and now < self._next:
            return
        self._state, self._next = (job.recorded_state, note), now + LINE_EVERY_S
        print_message(f"job {job.label}: {progress_text(job, self._speed, note)}")


def progress_text(job: JobSummary, recent: RecentSpeed, note: str = "", room: int | None = None) -> str:
    """Documents done, speed, time left and failures; or, with a `note`, why the job waits.

    `room` is the number of characters that fit: parts that do not are left out, the least important first.
    """
    counts = job.counts
    share = "open" if job.is_open else percent(job.share_done)  # the total of an open job grows
    done = f"{count(counts.done)}/{counted(counts.to_do, job.noun)} ({share})"
    if job.awaits_documents and job.recorded_state == "running":
        note = state_in_words(AWAITING)
    if note and not job.has_ended:
        return f"{done}, {note}"
    parts = {"done": done, "tokens": f"{count(job.tokens)} tokens"}
    speed = job.tokens_per_s if job.has_ended else recent.tokens_per_s
    if speed is not None:
        parts["speed"] = f"{figure(speed)} tokens/s"
    if job.has_ended:
        if job.elapsed_s is not None:  # None: no worker has started it
            parts["time"] = f"in {duration(job.elapsed_s)}"
    elif recent.eta_s is not None and job.recorded_state == "running" and not job.is_open:
        parts["time"] = f"{duration(recent.eta_s)} to go"
    if job.unsuccessful:
        parts["not ok"] = ", ".join(counts.words(*NOT_OK))
    if job.recorded_state != "running":
        parts["state"] = job.recorded_state
    for name in ("tokens", "speed", "time", "state"):
        if room is not None and len(", ".join(parts.values())) > room:
            parts.pop(name, None)
    return ", ".join(parts.values())
