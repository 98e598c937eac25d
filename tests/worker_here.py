"""A worker in a thread of this process, for tests of results: the processes of `kvjobs worker` take five seconds of
processor time to load what the tests have loaded. (Processes and signals: tests/end_to_end/test_worker.py.)"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.store.worker_registry import mark_stopped, register
from worker.child_process import worker_stats
from worker.drain import drain
from worker.isolation.sandbox import Sandbox
from worker.lane import Lane
from worker.process.lease_keeper import LeaseKeeper
from worker.providers.registry import Providers

LOOK_EVERY_S = 0.02
HEARTBEAT_S = 0.2


@contextmanager
def worker_here() -> Iterator[None]:
    """Process what is submitted, with the settings of the environment, until the block ends; a crash of the worker is
    raised there."""
    settings, _ = read_settings({})
    arguments = WorkerArguments(settings)
    database = Database.connect(settings.database_url)
    worker_id = register(database, device="cpu", provider="CPUExecutionProvider", lanes=1)
    providers = Providers(arguments)
    lane = Lane(0, providers)
    keeper = LeaseKeeper(database, worker_id, lease_s=settings.lease_s, heartbeat_s=HEARTBEAT_S)
    crashes: list[BaseException] = []

    def work() -> None:
        try:
            while not keeper.is_stopping():
                drain(database, lane, keeper, open_sandbox=partial(Sandbox, arguments))
                time.sleep(LOOK_EVERY_S)
        except BaseException as crash:  # raised where the block ends
            crashes.append(crash)

    threads = [
        threading.Thread(target=work),
        threading.Thread(target=keeper.keep_alive, args=(lambda: worker_stats(providers, [lane]),)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        keeper.stop()
        keeper.close()
        for thread in threads:
            thread.join()
        for name in ("ollama", "openai"):
            providers.get(name).close()  # type: ignore[attr-defined]  # has connections; to get it opens none
        mark_stopped(database, [keeper.worker_id])
        database.close()
    for crash in crashes:
        raise crash
