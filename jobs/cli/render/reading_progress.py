"""The progress of reading a corpus, the documents of a job, or of other work: a live line on a terminal, nothing
elsewhere."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.cli.render.messages import MessageFormat, message_format
from jobs.submission.progress import IngestProgress
from jobs.text.formatting import counted, figure


@contextmanager
def reading_progress() -> Iterator[Callable[[IngestProgress], None]]:
    """The function for `submit` to call after each batch. What is fetched from elsewhere before is shown too."""
    if not sys.stderr.isatty() or message_format() is not MessageFormat.PLAIN:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("reading"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True, transient=True) as bar:
        task = bar.add_task("", total=None, text="")
        started = time.monotonic()

        def update(progress: IngestProgress) -> None:
            speed = progress.documents / max(time.monotonic() - started, 1e-3)
            text = f"{counted(progress.documents, 'document')}, {figure(speed)}/s, {counted(progress.lines, 'line')}"
            bar.update(task, total=progress.num_bytes, completed=progress.bytes_read, text=text)

        def update_fetched(text: str) -> None:
            nonlocal started
            started = time.monotonic()
            bar.update(task, text=text)

        with _logged("jobs.addresses", update_fetched):
            yield update


@contextmanager
def counting_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """The function to call with the number of documents read so far, out of `total`."""
    if not sys.stderr.isatty() or message_format() is not MessageFormat.PLAIN:
        yield lambda read: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (TextColumn(what), BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, expand=True, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda read: bar.update(task, completed=read)


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """The function to call with what is being done now, for work of which nobody knows how much there is."""
    if not sys.stderr.isatty() or message_format() is not MessageFormat.PLAIN:
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False, markup=False, emoji=False).status("") as status:
        yield lambda text: status.update(text)


@contextmanager
def logged_status(logger: str) -> Iterator[None]:
    """Show what `logger` and those below it log at level INFO as a status line, and nowhere else."""
    with status_line() as tell, _logged(logger, tell):
        yield


@contextmanager
def _logged(logger: str, tell: Callable[[str], None]) -> Iterator[None]:
    log = logging.getLogger(logger)
    handler = _Told(tell)
    level, propagates = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


class _Told(logging.Handler):
    """Passes the message of each record to a function."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record.getMessage())
