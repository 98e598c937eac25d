"""The Celery worker inside a parent: hears hints, and nothing else.

It runs in a thread of its own and without Celery's signal handlers: whatever it does while Redis is away, the parent
stops when it is told to. When it dies, the lanes still look for work by themselves.
"""

import gc
import logging
import threading
from typing import Any

from celery import Celery
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer

from jobs.dispatch.broker import make_app, make_queue
from jobs.dispatch.presence import Presence
from jobs.queues import Queues
from jobs.settings import hide_passwords
from worker.fleet.tasks import add_tasks
from worker.process.child import Child

log = logging.getLogger(__name__)

RECONNECT_S = (1, 1, 5)  # the first pause between two attempts, by how much it grows, the longest
AGAIN_AFTER_S = 10.0
LEAVE_WITHIN_S = 2.0


def make_worker_app(broker_url: str, queues: Queues, child: Child) -> Celery:
    """The application that serves these queues with that child."""
    app = make_app(broker_url)
    app.conf.task_queues = [make_queue(name) for name in queues.names()]
    add_tasks(app, child)
    return app


class Listener:
    """The Celery worker, started again should it end, until `stop`."""

    def __init__(self, app: Celery, node: str, presence: Presence, stop: threading.Event) -> None:
        self._app = app
        self._node = node
        self._presence = presence
        self._stop = stop
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        threading.Thread(target=self._end_with_the_worker, daemon=True).start()

    def leave(self) -> None:
        """Wait for it to end, once `stop` is set, but not for long: Redis may be away."""
        self._thread.join(LEAVE_WITHIN_S)

    def _end_with_the_worker(self) -> None:
        """A worker that finishes its last batch takes no more hints: they are for those who stay."""
        self._stop.wait()
        state.should_stop = 0  # Celery looks at it once a second at least, between two attempts to connect too

    def _run(self) -> None:
        while not self._stop.is_set():
            state.should_stop = None  # another worker of the broker may have been told to shut all down
            try:
                self._controller().start()
            except Exception:  # whatever it is: hints save seconds, they are not worth a worker
                log.exception("the Celery worker ended; it starts again in %.0f s", AGAIN_AFTER_S)
            # What ended is cycles, and these hold files of epoll: a parent makes so little garbage that Python would
            # not look for it for days.
            gc.collect()
            self._stop.wait(AGAIN_AFTER_S)

    def _controller(self) -> Any:
        presence = self._presence

        class Ear(Consumer):  # type: ignore[misc]  # Celery publishes no types
            """Tells when the broker goes and comes, and does not wait half a minute between two attempts."""

            def ensure_connected(self, conn: Any) -> Any:
                def on_error(error: Exception, _interval: float) -> None:
                    presence.lost(f"the broker {hide_passwords(conn.as_uri())} does not answer ({error})")

                return conn.ensure_connection(on_error, None, *RECONNECT_S, callback=state.maybe_shutdown)

            def on_ready(self) -> None:
                super().on_ready()
                presence.back()

        return WorkController(
            app=self._app,
            hostname=self._node,
            consumer_cls=Ear,
            pool_cls="threads",
            concurrency=1,
            prefetch_multiplier=1,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            task_events=False,
        )
