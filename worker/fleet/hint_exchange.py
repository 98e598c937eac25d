"""The two threads of a parent with a broker: one receives hints, the other sends them for the whole fleet."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer
from redis.exceptions import RedisError

from jobs.dispatch.broker import DRAIN, BrokerStatus, make_app, make_queue
from jobs.dispatch.hints import Dispatcher
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.queues import Queues
from jobs.settings import Settings, hide_passwords
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.fleet.submit_starter import SubmitStarter
from worker.process.child_handle import Child

MAX_BUSY_S = 60.0  # the longest time for which one hint keeps a worker from taking the next
log = logging.getLogger(__name__)
celery_log = logging.getLogger("celery.worker")
request_log = logging.getLogger("celery.worker.request")  # a filter of the logger above does not see its records
task_logs = [logging.getLogger("celery.worker.strategy"), logging.getLogger("celery.app.trace")]  # of each hint
RECONNECT_S = (1, 1, 5)  # the first pause between two attempts, its growth, the longest pause
RESTART_AFTER_S = 10.0
JOIN_S = 2.0


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
    submits = SubmitStarter(make_app(settings.broker), arguments)
    dispatcher = Dispatcher(database, app, new_holder(), broker_status, silence_s=settings.lease_s, also=submits.look)
    dispatching = threading.Thread(target=dispatcher.run, args=(stop,), daemon=True)
    listener.start()
    dispatching.start()
    try:
        yield
    finally:
        stop.set()
        listener.join()
        dispatching.join(1.0)
        submits.end()


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


class HintListener:
    """Runs the Celery worker, and restarts it if it ends, until `stop` is set.

    In a thread of its own and without Celery's signal handlers, so the parent stops when it is asked to, whatever
    Celery does while Redis is unreachable. Where the thread fails, the lanes still look for work by themselves.
    """

    def __init__(self, app: Celery, node: str, broker_status: BrokerStatus, stop: threading.Event) -> None:
        self._app = app
        self._node = node
        self._broker_status = broker_status
        self._stop = stop
        self._connection_errors = (*app.connection_for_read().connection_errors, RedisError)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        threading.Thread(target=self._stop_celery, daemon=True).start()

    def join(self) -> None:
        """Wait for its end after `stop`, for `JOIN_S` at most: Redis may be unreachable."""
        self._thread.join(JOIN_S)

    def _stop_celery(self) -> None:
        """A worker that finishes its last batch takes no more hints, so that other workers get them."""
        self._stop.wait()
        state.should_stop = 0  # Celery reads it at least once a second, between two attempts to connect too

    def _run(self) -> None:
        celery_log.addFilter(self._is_no_lost_connection)
        for logger in task_logs:
            logger.addFilter(log_as_debug)
        request_log.addFilter(self._is_no_lost_acknowledgement)
        try:
            self._listen()
        finally:
            celery_log.removeFilter(self._is_no_lost_connection)
            for logger in task_logs:
                logger.removeFilter(log_as_debug)
            request_log.removeFilter(self._is_no_lost_acknowledgement)

    def _listen(self) -> None:
        while not self._stop.is_set():
            state.should_stop = None  # a shutdown of all workers over the broker sets it
            try:
                self._controller().start()
            except RedisError as error:  # a replica that takes no writes, a lost permission
                self._report(self._app.connection_for_read(), error)
            except Exception:  # of any kind: hints save seconds, and are not worth a worker
                log.exception("the Celery worker ended; it starts again in %.0f s", RESTART_AFTER_S)
            # The ended worker is garbage in reference cycles that hold epoll files open, and a parent makes so little
            # garbage that Python would not collect it for days.
            gc.collect()
            self._stop.wait(RESTART_AFTER_S)

    def _is_no_lost_connection(self, record: logging.LogRecord) -> bool:
        """Report the connection errors that Celery does not recover from, such as a second one while it closes what the
        first has broken: it logs them with a traceback, and ends."""
        error = self._connection_error(record)
        if error is None:
            return True
        self._report(self._app.connection_for_read(), error)
        return False

    def _is_no_lost_acknowledgement(self, record: logging.LogRecord) -> bool:
        """Celery logs an acknowledgement that is lost with its connection, with a traceback. Such a hint comes once
        more, which harms nothing, and the consumer reports the connection itself."""
        return self._connection_error(record) is None

    def _connection_error(self, record: logging.LogRecord) -> BaseException | None:
        error = record.exc_info[1] if record.exc_info else None
        return error if isinstance(error, self._connection_errors) else None

    def _report(self, conn: Any, error: BaseException) -> None:
        self._broker_status.lost(f"the broker {hide_passwords(conn.as_uri())} does not answer ({error})")

    def _controller(self) -> Any:
        broker_status, report = self._broker_status, self._report

        class HintConsumer(Consumer):  # type: ignore[misc]  # Celery publishes no types
            """Reports when the connection is lost and restored, and does not wait half a minute between attempts."""

            def ensure_connected(self, conn: Any) -> Any:
                def on_error(error: Exception, _interval: float) -> None:
                    report(conn, error)

                return conn.ensure_connection(on_error, None, *RECONNECT_S, callback=state.maybe_shutdown)

            def on_ready(self) -> None:
                super().on_ready()
                broker_status.back()

        return WorkController(
            app=self._app,
            hostname=self._node,
            consumer_cls=HintConsumer,
            pool_cls="threads",
            concurrency=1,
            prefetch_multiplier=1,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            task_events=False,
        )


def log_as_debug(record: logging.LogRecord) -> bool:
    """A log filter: the two lines of Celery for each hint, received and succeeded, get the level DEBUG."""
    if record.levelno == logging.INFO:
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return logging.getLogger().isEnabledFor(record.levelno)
