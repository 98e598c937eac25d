"""The two threads of a parent with a broker: one receives hints, the other sends them for the whole fleet."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery import Celery

from jobs.dispatch.broker import DRAIN, BrokerStatus, make_app, make_queue
from jobs.dispatch.hints import Dispatcher
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.queues import Queues
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.fleet.hint_listener import HintListener
from worker.process.child_handle import Child

MAX_BUSY_S = 60.0  # the longest time for which one hint keeps a worker from taking the next


@contextmanager
def exchange_hints(
    arguments: WorkerArguments, database: Database, child: Child, stop: threading.Event, say: Callable[[str], None]
) -> Iterator[None]:
    """Within this context, hints wake the child, and this process sends hints while it is the fleet's dispatcher.
    `say` gets a sentence when the broker goes and when it is back."""
    settings = arguments.settings
    assert arguments.node is not None
    _quiet_celery(settings)
    app = make_worker_app(settings.broker, Queues.parse(settings.queues, arguments.device), child)
    broker_status = BrokerStatus(say)
    listener = HintListener(app, arguments.node, broker_status, stop)
    dispatcher = Dispatcher(database, app, new_holder(), broker_status, silence_s=settings.lease_s)
    dispatching = threading.Thread(target=dispatcher.run, args=(stop,), daemon=True)
    listener.start()
    dispatching.start()
    try:
        yield
    finally:
        stop.set()
        listener.join()
        dispatching.join(1.0)


def make_worker_app(broker_url: str, queues: Queues, child: Child) -> Celery:
    """The application whose task wakes that child at hints in these queues."""
    app = make_app(broker_url)
    app.conf.task_queues = [make_queue(name) for name in queues.names()]
    _add_task(app, child)
    app.set_default()  # the threads of Celery's pool look a task up in the default application of the process
    return app


def _add_task(app: Celery, child: Child) -> None:
    """Add the only Celery task: it wakes the lanes, which find their work in the database."""

    # Not shared: else Celery adds it, with this child, to every application that the process makes afterwards.
    @app.task(name=DRAIN, ignore_result=True, shared=False)  # type: ignore[untyped-decorator]
    def drain() -> None:
        """Wake the lanes, and take no other hint while they work: it may wake another worker."""
        child.wake()
        child.wait_idle(MAX_BUSY_S)


def _quiet_celery(settings: Settings) -> None:
    """Celery logs every attempt to reconnect; `BrokerStatus` reports once that the broker is unreachable."""
    if settings.log_level in ("warning", "error"):
        for name in ("celery", "kombu"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
