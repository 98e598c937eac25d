"""The messages by which a Celery application asks for jobs: `kvjobs.submit`, answered by one process after the other.

A message in hand is kept in the broker until it is acknowledged, below names of its own: one that a killed process had
is seen, and comes again with the next process. A message that comes twice finds the job that it made.
"""

from celery import Celery
from kombu import Exchange, Queue

from jobs.dispatch.broker import answering, make_app

SUBMIT = "kvjobs.submit"  # the task, and its queue
UNACKED = f"{SUBMIT}.unacked"
# Not shorter than the longest submit: Redis gives a message again that is longer in hand.
_IN_HAND = {
    "unacked_key": UNACKED,
    "unacked_index_key": f"{UNACKED}_index",
    "unacked_mutex_key": f"{UNACKED}_mutex",
    "visibility_timeout": 7 * 24 * 3600,
}


def make_submit_app(broker_url: str) -> Celery:
    """The Celery application of the process that answers; its results are kept in the broker."""
    app = make_app(broker_url)
    app.conf.update(
        task_queues=[_queue()],
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=False,
        result_backend=app.broker_url,
        broker_transport_options={**app.conf.broker_transport_options, **_IN_HAND},
    )
    return app


def waiting_submits(app: Celery) -> int:
    """The number of messages without an answer: not taken yet, or in a process's hand, which may be dead. Raises
    BrokerError, after a few seconds at most."""
    with answering(app) as connection:
        client = connection.default_channel.client
        return int(client.llen(SUBMIT)) + int(client.hlen(UNACKED))


def return_submits(app: Celery) -> None:
    """Put every message in hand back into the queue: to be called when no process has one. Raises BrokerError."""
    with answering(app, visibility_timeout=0) as connection:
        connection.default_channel.qos.restore_visible(num=None)


def _queue() -> Queue:
    """Declared as an application without settings of its own does."""
    return Queue(SUBMIT, Exchange(SUBMIT, type="direct"), routing_key=SUBMIT)
