"""The progress of a job that a program waits for: a bar on a terminal, the job itself in a notebook."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jobs.text.formatting import duration, figure

if TYPE_CHECKING:
    from kvjobs.job import Job

Update = Callable[["Job", str], None]  # the job, and why it waits


@contextmanager
def progress_of(job: "Job", *, shown: bool) -> Iterator[Update]:
    """A display of one job; without `shown`, and where standard error is no terminal, nothing is shown."""
    if shown and (notebook := _notebook()):
        yield notebook(job)
    elif shown and sys.stderr.isatty():
        with _bar(job) as update:
            yield update
    else:
        yield lambda _job, _note: None


def _notebook() -> "Callable[[Job], Update] | None":
    """What shows a job in the cell of a notebook, if this is one."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell else None
    if running is None or type(running).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    def show(job: "Job") -> Update:
        cell = display(job, display_id=True)
        return lambda job, _note: cell.update(job)

    return show


@contextmanager
def _bar(job: "Job") -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("job {task.fields[number]}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[text]}", markup=False),
    )
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Progress(*columns, console=console, expand=True, refresh_per_second=4) as bars:
        task = bars.add_task("", total=1.0, number=job.id, text="")

        def update(job: "Job", note: str) -> None:
            bars.update(task, completed=job.info["share_done"] or 0.0, text=note or _text(job.info))

        yield update


def _text(info: dict[str, Any]) -> str:
    """`480/1,000 documents, 6,553 tokens/s, 2 min left`."""
    parts = [f"{info['done']:,}/{info['documents']:,} documents"]
    if speed := info["recent_tokens_per_s"] or info["tokens_per_s"]:
        parts.append(f"{figure(speed)} tokens/s")
    parts.append(f"{duration(info['eta_s'])} left" if info["eta_s"] else str(info["shown_state"]))
    return ", ".join(parts)
