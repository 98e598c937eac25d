"""The event that a job has ended, written in the transaction that ends it (an outbox): so it is lost only together with
the end itself. `jobs.store.webhooks` says what becomes of it."""

import json
import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, or_, select

from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Job, JobCounts
from jobs.store.schema.webhook_table import WebhookDelivery

COUNTS = ("documents", "succeeded", "rejected", "failed", "quarantined", "cancelled", "skipped")
OF_STAGE = ("task", "model", "state")


def announce_end(connection: Connection, job_id: int) -> None:
    """Write what is to be sent because a job, or the last stage of a chain, has just ended: a delivery for each address
    that its submit named."""
    ended = connection.execute(select(Job.notify, Job.chain, Job.state).where(Job.id == job_id)).one()
    if ended.notify is None:
        return
    stages = _stages(connection, ended.chain or job_id)
    event = f"job.{ended.state}"
    payload = json.dumps(_payload(event, stages), ensure_ascii=False)
    rows = [
        {
            "job_id": stages[0]["id"],
            "message_id": f"msg_{secrets.token_hex(16)}",
            "event": event,
            "payload": payload,
            "url": url,
            "attempts": 0,
        }
        for url in json.loads(ended.notify)
    ]
    for row in rows:
        connection.execute(insert(WebhookDelivery).values(**row, created_at=db_time(), next_try_at=db_time()))


def _stages(connection: Connection, first: int) -> list[dict[str, Any]]:
    """The rows of a job, or of the jobs of a chain, with their counts."""
    found = connection.execute(
        select(
            *(Job.id, Job.name, Job.owner, Job.reason, Job.created_at, Job.started_at, Job.finished_at),
            *(getattr(Job, name) for name in OF_STAGE),
            *(getattr(JobCounts, name) for name in COUNTS),
        )
        .join(JobCounts, JobCounts.job_id == Job.id)
        .where(or_(Job.id == first, Job.chain == first))
        .order_by(Job.id)
    )
    return [dict(row) for row in found.mappings()]


def _payload(event: str, stages: list[dict[str, Any]]) -> dict[str, Any]:
    """By Standard Webhooks: type, timestamp, data. It has no text of a document and no path of a corpus."""
    first, last = stages[0], stages[-1]
    data = {"job": first["id"], "name": first["name"], "owner": first["owner"]}
    data |= {name: last[name] for name in OF_STAGE} | {"reason": last["reason"]}
    data |= {"created_at": _time(first["created_at"]), "started_at": _time(first["started_at"])}
    data |= {"finished_at": _time(last["finished_at"]), "counts": {name: last[name] for name in COUNTS}}
    if len(stages) > 1:
        data["stages"] = [
            {"job": stage["id"]} | {name: stage[name] for name in (*OF_STAGE, *COUNTS)} for stage in stages
        ]
    return {"type": event, "timestamp": _time(last["finished_at"]), "data": data}


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
