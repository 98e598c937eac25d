"""What page and terminal say of the webhooks of a job. The query of an address may hold a key, so it is left out; so is
what was sent."""

from collections.abc import Sequence
from typing import Any

from jobs.store.webhooks import Delivery
from jobs.text.formatting import counted, moment
from jobs.webhook_address import shown_address

SHOWN = ("id", "job_id", "event", "message_id", "created_at", "attempts", "next_try_at", "delivered_at")


def webhook_rows(deliveries: Sequence[Delivery]) -> list[dict[str, Any]]:
    """A row of each delivery, for tables and JSON."""
    return [
        {name: getattr(delivery, name) for name in SHOWN}
        | {"url": shown_address(delivery.url), "state": delivery.state}
        | {"last_status": delivery.last_status, "last_error": delivery.last_error}
        for delivery in deliveries
    ]


def webhooks_sentence(deliveries: Sequence[Delivery]) -> str:
    """How many were delivered, and of the newest that was not, why, and when it is sent again."""
    delivered = sum(delivery.state == "delivered" for delivery in deliveries)
    sentence = f"{delivered} of {counted(len(deliveries), 'webhook')} delivered"
    late = next((delivery for delivery in deliveries if delivery.state != "delivered"), None)
    if late is None:
        return sentence
    tried = f"{counted(late.attempts, 'attempt')}: {late.last_error}" if late.last_error else "not sent yet"
    then = f", next at {moment(late.next_try_at)}" if late.next_try_at and late.attempts else ""
    given_up = ", given up" if late.state == "given up" else then
    return f"{sentence}; to {shown_address(late.url)}, {tried}{given_up}"
