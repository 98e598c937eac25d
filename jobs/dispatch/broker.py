"""The broker (Redis through Celery): sending and counting hints. Every call has a time limit.

A hint is a message that a queue has work. It contains nothing else and may be lost or duplicated, so no
acknowledgement or result is needed.

Knows: Celery's settings. Does not know: tables.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from celery import Celery
from kombu import Exchange, Queue
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from jobs.errors import SpecError, TransientError
from jobs.settings import hide_passwords

DRAIN = "kvjobs.drain"  # the task that a hint runs
ANSWER_S = 2.0  # time limit for connecting to the broker, and for its answer

_LISTENING = {
    "visibility_timeout": 900,
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
    # retry_on_timeout stays unset: with it kombu does not publish in batches
}


class BrokerError(TransientError):
    """The broker is unreachable or refuses. Workers then find work by polling the database."""


class _App(Celery):  # type: ignore[misc]  # Celery publishes no types
    """A Celery application that ignores the environment variable CELERY_BROKER_URL, which Celery prefers to
    settings."""

    broker_url = ""

    def connection_for_read(self, url: str | None = None, **kw: Any) -> Any:
        return super().connection_for_read(url or self.broker_url, **kw)

    def connection_for_write(self, url: str | None = None, **kw: Any) -> Any:
        return super().connection_for_write(url or self.broker_url, **kw)


def make_app(broker_url: str) -> Celery:
    """The Celery application of both the senders of hints and the workers."""
    url, more = _address(broker_url)
    options = _LISTENING | more.pop("broker_transport_options", {})
    app = _App("kvjobs", set_as_current=False)
    app.broker_url = url
    app.conf.update(
        broker_url=url,
        broker_transport_options=options,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_acks_late=False,
        task_ignore_result=True,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_prefetch_count_reduction=False,
        worker_soft_shutdown_timeout=30,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        enable_utc=True,
        **more,
    )
    return app


def queue_name(queue: str) -> str:
    """The name of a queue of `jobs.queues` in the broker."""
    return f"kvjobs.{queue}"


def make_queue(queue: str) -> Queue:
    """The Celery queue that a worker consumes."""
    name = queue_name(queue)
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def send_hints(app: Celery, queue: str, count: int) -> None:
    """Send `count` hints to a queue. Raises BrokerError, after a few seconds at most."""
    with answering(app) as connection:
        producer = app.amqp.Producer(connection)
        for _ in range(count):
            # Without `expires`: a receiver whose clock is ahead would discard hints.
            app.send_task(DRAIN, queue=make_queue(queue), producer=producer, retry=False, ignore_result=True)


def waiting_hints(app: Celery, queue: str) -> int:
    """The number of hints that no worker has received yet. Raises BrokerError, after a few seconds at most."""
    with answering(app) as connection:
        return int(connection.default_channel.client.llen(queue_name(queue)))


def ping_nodes(app: Celery, nodes: list[str], seconds: float) -> set[str]:
    """Which of these Celery workers answer. Raises BrokerError where the broker does not."""
    with answering(app) as connection:
        replies = app.control.ping(destination=nodes, timeout=seconds, connection=connection) or []
    return {node for reply in replies for node in reply}


def configuration(app: Celery, *names: str) -> dict[str, str] | None:
    """The broker's settings of these names; None where it does not allow CONFIG GET. Raises BrokerError."""
    with answering(app) as connection:
        client = connection.default_channel.client
        try:
            return {name: str(client.config_get(name).get(name, "")) for name in names}
        except RedisError:  # forbidden by an ACL, or by the hosting provider
            client.ping()
            return None


@contextmanager
def answering(app: Celery, **more: Any) -> Iterator[Any]:
    """A connection for one call with short timeouts. It is not shared, so a half-open connection affects no other
    call. `more`: options of the transport. Raises BrokerError."""
    quick = {"socket_timeout": ANSWER_S, "socket_connect_timeout": ANSWER_S, "max_retries": 0, **more}
    options = {**app.conf.broker_transport_options, **quick}
    connection = app.connection_for_write(connect_timeout=ANSWER_S, transport_options=options)
    try:
        with connection:
            yield connection
    except (KombuError, RedisError, OSError) as error:
        shown = hide_passwords(app.broker_url)
        raise BrokerError(f"the broker {shown} does not answer ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    return hide_passwords(str(error).strip().rstrip(".")) or type(error).__name__


def _address(url: str) -> tuple[str, dict[str, Any]]:
    """The URL in kombu's spelling, and the Celery settings that it implies. Raises SpecError where it is not a URL."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is not a number
        if url.startswith(("redis://", "rediss://")) and "@" in f"{parts.path}{parts.query}{parts.fragment}":
            raise ValueError("a password that holds a /")
    except ValueError:
        # The text may contain a password, so it is not repeated.
        raise SpecError(
            "the broker setting is not a URL; write redis://host:6379/0, and a password's /, @, : and # as %2F, %40, "
            "%3A and %23"
        ) from None
    if url.startswith("unix://"):
        return "redis+socket://" + url.removeprefix("unix://"), {}
    bare, _, query = url.partition("?")
    asked = dict(parse_qsl(query))
    if url.startswith("sentinel://"):
        return bare, {"broker_transport_options": {"master_name": asked.get("master_name", "mymaster")}}
    if url.startswith("rediss://"):  # by default kombu accepts any certificate
        return bare, {"broker_use_ssl": {"ssl_cert_reqs": "required", **asked}}
    return url, {}


class BrokerStatus:
    """Shared by threads. `say` is called with a sentence for the user."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._is_there = True

    def lost(self, reason: str) -> None:
        """Note that the broker does not answer, and report it if that is new."""
        with self._lock:
            if self._is_there:
                self._is_there = False
                self._say(f"{reason}; work goes on, new jobs are found within seconds")

    def back(self) -> None:
        """Note that the broker answers, and report it if that is new."""
        with self._lock:
            if not self._is_there:
                self._is_there = True
                self._say("the broker is back")
