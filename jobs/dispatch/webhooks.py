"""Sends what is due of the webhooks: by the parent of each worker, by the dashboard, and by a command that ended a job.

Any number may run at once. Each takes one delivery after the other, in threads that nothing else waits for, so a
receiver that stalls holds up neither leases nor pages.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from jobs import __version__
from jobs.dispatch.webhook_request import MOST_S, Resolve, WebhookError, post
from jobs.errors import StoreError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.webhooks import Delivery, claim_due, has_due, note_answer
from jobs.system.failpoints import failpoint
from jobs.webhook_address import shown_address

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
SENDERS = 4  # deliveries at a time
MOST_S_FOR_WEBHOOKS = 10.0  # that a command waits for its webhooks; others send them later


class WebhookSender:
    """Sends webhooks of one process, until it is stopped."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def start(self, stop: threading.Event) -> None:
        """Look every few seconds for what is due, until `stop` is set. Without a secret nothing can be signed, so
        another process has to send it."""
        if self._settings.notify_secret:
            threading.Thread(target=self._run, args=(stop,), daemon=True).start()

    def finish(self) -> None:
        """Send what is due now: this process is about to end by itself."""
        send_due(self._database, self._settings, MOST_S_FOR_WEBHOOKS)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_EVERY_S):
            send_due(self._database, self._settings)


def send_due(
    database: Database, settings: Settings, at_most_s: float | None = None, *, tell: Callable[[str], None] = log.warning
) -> None:
    """Send what is due, some at a time; `at_most_s`: wait no longer for that. `tell` gets a sentence for each that
    failed. An error of the database is no reason to stop: the next round may succeed, and what was claimed is due again
    later."""
    try:
        if not settings.notify_secret or not has_due(database):
            return
    except StoreError as error:
        log.debug("webhooks cannot be looked for: %s", error)
        return
    until = None if at_most_s is None else time.monotonic() + at_most_s
    threads = [threading.Thread(target=_send_all, args=(database, settings, tell), daemon=True) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if until is None else max(0.0, until - time.monotonic()))


def _send_all(database: Database, settings: Settings, tell: Callable[[str], None]) -> None:
    try:
        while deliver_next(database, settings, tell=tell):
            pass
    except StoreError as error:
        log.warning("a webhook waits for the database: %s", error)


def deliver_next(
    database: Database,
    settings: Settings,
    *,
    resolve: Resolve = socket.getaddrinfo,
    most_s: float = MOST_S,
    tell: Callable[[str], None] = log.warning,
) -> bool:
    """Send the delivery that has been due for longest, and note what came of it. Returns whether there was one."""
    delivery = claim_due(database)
    if delivery is None:
        return False
    status, problem = None, None
    try:
        body, headers = delivery.payload.encode(), signed_headers(delivery, settings.notify_secret)
        allow_private = settings.notify_private
        status = post(delivery.url, headers, body, allow_private=allow_private, most_s=most_s, resolve=resolve)
        problem = None if 200 <= status < 300 else _why_not(status)
    except WebhookError as error:
        problem = str(error)
    failpoint("after-webhook")
    note_answer(database, delivery, status, problem)
    if problem:
        tell(
            f"The webhook of job {delivery.job_id} to {shown_address(delivery.url)} failed: {problem}. When it is sent "
            f"again, by a worker or kvjobs web: kvjobs show {delivery.job_id}"
        )
    return True


def signed_headers(delivery: Delivery, secret: str) -> dict[str, str]:
    """The headers of a request by Standard Webhooks, signed now."""
    from standardwebhooks import Webhook

    now = datetime.now(tz=UTC)
    return {
        "content-type": "application/json",
        "user-agent": f"kvjobs/{__version__}",
        "webhook-id": delivery.message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(delivery.message_id, now, delivery.payload),
    }


def _why_not(status: int) -> str:
    if 300 <= status < 400:
        return f"it was answered with a redirect (HTTP {status}), and none is followed"
    return f"it was answered with HTTP {status}"
