"""The only Celery task: it wakes the lanes, which find their work in the database."""

from celery import Celery

from jobs.dispatch.broker import DRAIN
from worker.process.child_handle import Child

MAX_BUSY_S = 60.0  # the longest time for which one hint keeps a worker from taking the next


def add_tasks(app: Celery, child: Child) -> None:
    """Add the task that wakes the child."""

    # Not shared: else Celery adds it, with this child, to every application that the process makes afterwards.
    @app.task(name=DRAIN, ignore_result=True, shared=False)  # type: ignore[untyped-decorator]
    def drain() -> None:
        """Wake the lanes, and take no other hint while they work: it may wake another worker."""
        child.wake()
        child.wait_idle(MAX_BUSY_S)
