"""The only task. Celery decides when; what there is to do, the lanes find in the database."""

from celery import Celery

from jobs.dispatch.broker import DRAIN
from worker.process.child import Child

LONGEST_S = 60.0  # that one hint keeps a worker from taking the next


def add_tasks(app: Celery, child: Child) -> None:
    """Let the child do what the hints ask for."""

    @app.task(name=DRAIN, ignore_result=True)  # type: ignore[untyped-decorator]
    def drain() -> None:
        """Wake the lanes, and take no other hint while they work: it may wake another worker."""
        child.wake()
        child.wait_idle(LONGEST_S)
