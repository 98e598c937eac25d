"""A worker with a broker: the supervisor as ever, and beside it what hears hints and what sends them."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.dispatch.dispatcher import Dispatcher
from jobs.dispatch.orders import Orders
from jobs.dispatch.presence import Presence
from jobs.queues import Queues
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.fleet.app import Listener, make_worker_app
from worker.process.child import Child


@contextmanager
def hinted(
    orders: Orders, database: Database, child: Child, stop: threading.Event, say: Callable[[str], None]
) -> Iterator[None]:
    """While inside: hints wake the child, and this process is ready to send them for the whole fleet."""
    settings = orders.settings
    assert orders.node is not None
    _hush(settings)
    app = make_worker_app(settings.broker, Queues.parse(settings.queues, orders.device), child)
    presence = Presence(say)
    listener = Listener(app, orders.node, presence, stop)
    dispatcher = Dispatcher(database, app, new_holder(), presence, silence_s=settings.lease_s)
    dispatching = threading.Thread(target=dispatcher.run, args=(stop,), daemon=True)
    listener.start()
    dispatching.start()
    try:
        yield
    finally:
        stop.set()
        listener.leave()
        dispatching.join(1.0)


def _hush(settings: Settings) -> None:
    """Celery tells of every attempt to reconnect; here it is told once that the broker is away (`Presence`)."""
    if settings.log_level in ("warning", "error"):
        for name in ("celery", "kombu"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
