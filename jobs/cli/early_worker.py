"""The embedded worker that `submit --wait` starts before there is a job, so that it loads while the command does."""

import contextlib
from collections.abc import Iterator

from jobs.cli.submit_options import SubmitOptions
from jobs.dispatch.embedded_worker import EmbeddedWorker
from jobs.queues import CPU
from jobs.settings import Settings


@contextlib.contextmanager
def early_worker(settings: Settings, options: SubmitOptions) -> Iterator[EmbeddedWorker | None]:
    """A worker that waits for its job, and is killed at the end of the block if it got none: it has touched nothing.
    None where other workers are likely to serve the job, or it needs a GPU."""
    is_alone = not settings.broker and settings.database_url.startswith("sqlite")
    if not (options.wait and is_alone and options.queue == CPU) or options.dry_run:
        yield None
        return
    worker = EmbeddedWorker(settings)
    try:
        yield worker
    finally:
        if not worker.has_job:
            worker.kill()
