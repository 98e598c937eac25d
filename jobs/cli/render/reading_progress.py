"""How far the reading of a corpus is: nothing for a small one, a line that moves on a terminal, else silence."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.cli.render.messages import MessageFormat, message_format
from jobs.formatting import counted
from jobs.submission.progress import IngestProgress


@contextmanager
def reading_progress() -> Iterator[Callable[[IngestProgress], None]]:
    """What `submit` calls after each batch."""
    if not sys.stderr.isatty() or message_format() is not MessageFormat.PLAIN:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("reading"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True, transient=True) as bar:
        task = bar.add_task("", total=None, told="")
        started = time.monotonic()

        def update(progress: IngestProgress) -> None:
            speed = progress.documents / max(time.monotonic() - started, 1e-3)
            told = f"{counted(progress.documents, 'document')}, {speed:,.0f}/s, {counted(progress.lines, 'line')}"
            bar.update(task, total=progress.num_bytes, completed=progress.bytes_read, told=told)

        yield update
