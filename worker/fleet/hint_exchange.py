"""The two threads of a parent with a broker: one receives hints, the other sends them for the whole fleet."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.dispatch.broker_status import BrokerStatus
from jobs.dispatch.dispatcher import Dispatcher
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.queues import Queues
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.fleet.app import make_worker_app
from worker.fleet.hint_listener import HintListener
from worker.process.child_handle import Child


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


def _quiet_celery(settings: Settings) -> None:
    """Celery logs every attempt to reconnect; `BrokerStatus` reports once that the broker is unreachable."""
    if settings.log_level in ("warning", "error"):
        for name in ("celery", "kombu"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
