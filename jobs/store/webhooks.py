"""The deliveries of events (`jobs.store.queue.job_events`): claimed, noted, listed, sent again.

A claim is a lease without a fence: it moves the next attempt behind the time that one takes. So two processes seldom
send at once, and what a process that died had claimed is sent again, with the same id, by which its receiver tells it.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, exists, null, select, update

from jobs.errors import NotFoundError
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.webhook_table import WebhookDelivery

CLAIM_S = 120.0  # longer than an attempt takes, the look-up of a name included
# Seconds from an attempt to the next, as Standard Webhooks suggest: ten attempts in 75 hours.
PAUSES_S = (5, 300, 1800, *(hours * 3600 for hours in (2, 5, 10, 14, 20, 24)))
GONE = 410  # by Standard Webhooks: the receiver wants no more
LONGEST_ERROR = 500
MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery; the columns are described in `WebhookDelivery`."""

    id: int
    job_id: int
    message_id: str
    event: str
    payload: str
    url: str
    created_at: datetime
    attempts: int
    next_try_at: datetime | None
    delivered_at: datetime | None
    last_status: int | None
    last_error: str | None

    @property
    def state(self) -> str:
        """`delivered`, `waits`, or `given up`."""
        if self.delivered_at is not None:
            return "delivered"
        return "waits" if self.next_try_at is not None else "given up"


_COLUMNS = [getattr(WebhookDelivery, field.name) for field in fields(Delivery)]
_IS_DUE = WebhookDelivery.next_try_at <= db_time()


def has_due(database: Database) -> bool:
    """Whether a delivery is to be sent now."""
    with database.reading() as connection:
        return bool(connection.scalar(select(exists().where(_IS_DUE))))


def claim_due(database: Database, claim_s: float = CLAIM_S) -> Delivery | None:
    """The delivery that has been due for longest, for the caller alone until `claim_s` seconds from now; None: none is
    due. It counts as an attempt."""
    with database.writing() as connection:
        oldest = select(WebhookDelivery.id).where(_IS_DUE).order_by(WebhookDelivery.next_try_at).limit(1)
        number = connection.execute(oldest.with_for_update(skip_locked=True)).scalar()
        if number is None:
            return None
        claimed = {"next_try_at": db_time(claim_s), "attempts": WebhookDelivery.attempts + 1}
        connection.execute(update(WebhookDelivery).where(WebhookDelivery.id == number).values(claimed))
        return Delivery(*connection.execute(select(*_COLUMNS).where(WebhookDelivery.id == number)).one())


def note_answer(database: Database, delivery: Delivery, status: int | None, error: str | None) -> None:
    """Note what an attempt came to: delivered by a status of 200 to 299; else it is tried again later, or given up
    after the last attempt and where the receiver is gone."""
    values: dict[str, Any] = {"last_status": status, "last_error": error and error[:LONGEST_ERROR]}
    if status is not None and 200 <= status < 300:
        values |= {"delivered_at": db_time(), "next_try_at": null(), "last_error": null()}
    elif status == GONE or delivery.attempts > len(PAUSES_S):
        values["next_try_at"] = null()
    else:
        values["next_try_at"] = db_time(PAUSES_S[delivery.attempts - 1])
    # Another may have delivered it meanwhile, where this attempt took longer than its claim.
    mine = (WebhookDelivery.id == delivery.id) & WebhookDelivery.delivered_at.is_(None)
    with database.writing() as connection:
        connection.execute(update(WebhookDelivery).where(mine).values(values))


def send_again(database: Database, job_id: int, number: int) -> None:
    """Send a delivery of a job as soon as possible, from the first attempt on. Raises NotFoundError."""
    with database.writing() as connection:
        of_job = (WebhookDelivery.id == number) & (WebhookDelivery.job_id == job_id)
        anew = {"attempts": 0, "next_try_at": db_time(), "delivered_at": null()}
        if not connection.execute(update(WebhookDelivery).where(of_job).values(anew)).rowcount:
            raise NotFoundError(f"job {job_id} has no webhook {number}")


def list_deliveries(connection: Connection, job_id: int) -> list[Delivery]:
    """The newest deliveries of a job, newest first; those of a chain belong to its first job."""
    newest = select(*_COLUMNS).where(WebhookDelivery.job_id == job_id).order_by(WebhookDelivery.id.desc())
    return [Delivery(*row) for row in connection.execute(newest.limit(MOST_LISTED))]
