"""The Celery application of a worker: the queues that it serves, and its one task."""

from celery import Celery

from jobs.dispatch.broker import make_app, make_queue
from jobs.queues import Queues
from worker.fleet.tasks import add_tasks
from worker.process.child_handle import Child


def make_worker_app(broker_url: str, queues: Queues, child: Child) -> Celery:
    """The application whose task wakes that child at hints in these queues."""
    app = make_app(broker_url)
    app.conf.task_queues = [make_queue(name) for name in queues.names()]
    add_tasks(app, child)
    app.set_default()  # the threads of Celery's pool look a task up in the default application of the process
    return app
