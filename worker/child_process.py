"""The child process: keeps the models open, and runs N lanes (threads) and a heartbeat until it is asked to stop.

Started by `worker.supervisor` as a fresh process, never as a fork: a session's threads and a GPU's context do not
survive one. It talks to its parent through two pipes (`worker.process.parent_pipe`). When the parent ends, however that
happens, the pipe ends too, and the child finishes the current batches and exits.
"""

import faulthandler
import json
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from jobs.dispatch.database_outage import DatabaseOutage
from jobs.dispatch.health import Health
from jobs.dispatch.worker_arguments import EXIT_DRAINED, WorkerArguments
from jobs.errors import KvjobsError, StoreError, TransientError, ValueRefused
from jobs.providers import ONNX
from jobs.queues import CPU, Queues
from jobs.store.database import Database
from jobs.store.jobs import jobs_paused_for, resume
from jobs.store.queue import leases
from jobs.store.worker_registry import WorkerStats, mark_stopped, register
from jobs.system.process import ProcessId
from jobs.text.log_lines import set_process_fields, tell_stderr
from worker.drain import INSTALLATION, drain
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import lanes_of, provider_name
from worker.installation import REASON, InstallationBroken
from worker.isolation.sandbox import Sandbox
from worker.lane import Lane
from worker.process.child_handle import EXIT_REFUSED
from worker.process.connect import connect_with_retry
from worker.process.health import serve_health
from worker.process.lease_keeper import LeaseKeeper
from worker.process.memory_limits import limit_to_machine, set_oom_score
from worker.process.parent_pipe import ParentPipe
from worker.process.work_log import log_to_stderr
from worker.providers.registry import Providers, provider_class

log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 10.0
BROKEN_PAUSE_S = 5.0  # until a job is tried again whose model is being installed
NO_THREAD = "can't start new thread"
NO_WATCHDOG_THREAD = "unable to start watchdog thread"  # of faulthandler
TOO_FEW_THREADS = (
    "kvjobs worker: this process may not start as many threads as it needs; raise the limit (ulimit -u, TasksMax=, "
    "--pids-limit), or give it fewer lanes"
)
PAUSED_S = 0.5  # between two looks whether a paused worker is resumed; the heartbeat tells
LOOK_EVERY_S = 5.0  # at least, where a broker wakes the lanes
OPEN_EVERY_S = 0.5  # at most, while a job is open: a document that is appended is leased within a second


def main() -> int:
    """Run the lanes as the first argument says; the exit code."""
    arguments = WorkerArguments.from_argument(sys.argv[1])
    log_to_stderr(arguments.settings)
    faulthandler.enable(all_threads=False)  # on a crash, the traceback of the thread goes to standard error
    set_oom_score(500)  # killed before the database and before its parent
    if arguments.device == CPU:
        limit_to_machine()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the parent decides
    num_lanes = lanes_of(arguments.device, arguments.settings.lanes)
    parent = ParentPipe(num_lanes)
    signal.signal(signal.SIGTERM, lambda *_: parent.stop())
    try:
        _start(partial(parent.listen, is_early=arguments.is_early))
        if arguments.is_early:
            with suppress(ImportError):  # the lane that needs it deals with it
                provider_class(ONNX)  # which most jobs need
            if (first_job := parent.wait_job()) is None:
                return 0
            arguments = replace(arguments, first_job=first_job)
        database = connect_with_retry(arguments.settings, parent.wait_stop, has_run=arguments.has_run)
        return 0 if database is None else _run(database, arguments, num_lanes, parent)
    except KvjobsError as error:
        tell_stderr(f"kvjobs worker: {error}")
        return EXIT_REFUSED
    except RuntimeError as error:
        if NO_THREAD not in str(error):
            raise
        tell_stderr(TOO_FEW_THREADS)
        return 1


def _watch(run: Callable[[], None]) -> None:
    """Run the watchdog; a process that it cannot watch is ended, and another is started in its place."""
    try:
        run()
    except RuntimeError as error:
        if NO_WATCHDOG_THREAD not in str(error):
            raise
        tell_stderr(TOO_FEW_THREADS)
        os._exit(1)


def _run(database: Database, arguments: WorkerArguments, num_lanes: int, parent: ParentPipe) -> int:
    settings = arguments.settings
    providers = Providers(arguments)
    lanes = [Lane(number, providers) for number in range(num_lanes)]
    queues = Queues.parse(settings.queues, arguments.device)
    started_by = os.getppid()

    def register_worker() -> int:
        worker_id = register(
            database,
            device=arguments.device,
            provider=provider_name(arguments.device),
            lanes=num_lanes,
            queues=str(queues),
            node=arguments.node,
            parent_pid=started_by,
            replaces=arguments.replaces,
        )
        parent.report_registered(worker_id)
        set_process_fields(worker=worker_id)
        return worker_id

    worker_id = _register_with_retry(register_worker, arguments, parent)
    if worker_id is None:
        return 0
    keeper = LeaseKeeper(
        database,
        worker_id,
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        hang_s=settings.hang_s,
        wakeup=parent.wakeup,
        register=register_worker,
        on_tick=parent.report_alive,
    )
    if arguments.has_run:  # a request to the last process, such as pause, holds for this one too
        with suppress(StoreError):
            keeper.record_heartbeat(worker_stats(providers, lanes))
    parent.call_at_stop(keeper.stop)
    heartbeat = _start(keeper.keep_alive, lambda: worker_stats(providers, lanes))
    _start(partial(_watch, keeper.watchdog.run))
    failures: list[str] = []
    lane_threads = [_start(_run_lane, database, lane, keeper, arguments, queues, failures) for lane in lanes]
    with serve_health(settings, lambda: _health(keeper, lane_threads)):
        for thread in lane_threads:
            thread.join()
    keeper.close()
    heartbeat.join(timeout=5)
    for failure in failures:
        tell_stderr(failure)
    try:
        mark_stopped(database, [keeper.worker_id], killed=os.getppid() != started_by)  # the parent is gone: kill -9
    except StoreError as error:
        log.warning("%s", error)
    if failures:
        return 1
    return EXIT_DRAINED if keeper.is_draining() and not keeper.is_stopping() else 0


def _start(target: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def _register_with_retry(
    register_worker: Callable[[], int], arguments: WorkerArguments, parent: ParentPipe
) -> int | None:
    """The id of this worker, as soon as the database accepts it; None where this process is to stop. Raises StoreError
    for errors that waiting cannot resolve, as `connect_with_retry` does."""
    outage = DatabaseOutage()
    while True:
        try:
            return register_worker()
        except StoreError as error:
            if not (arguments.has_run or isinstance(error, TransientError)):
                raise
            outage.met(error)
        if parent.wait_stop(1.0):
            return None


def _run_lane(
    database: Database, lane: Lane, keeper: LeaseKeeper, arguments: WorkerArguments, queues: Queues, failures: list[str]
) -> None:
    """Drain, wait, drain, until the worker stops. An unexpected error ends the process; the parent starts another."""
    looks_for_all = lane.number == 0  # at the start all look; afterwards one at a time, for all that wait
    pause_s = 0.5
    look_every_s = _look_every_s(arguments)
    try:
        while not keeper.is_stopping():
            if keeper.is_draining():
                return
            if not keeper.takes_work():  # it is paused: it does not report that it waits, so that hints go to others
                keeper.wakeup.sleep(PAUSED_S)
                continue
            try:
                if looks_for_all:
                    _resume_repaired(database)
                drain(database, lane, keeper, queues, arguments.first_job, partial(Sandbox, arguments))
                is_open = arguments.node is None and leases.awaits_documents(database, queues)
                pause_s = 0.5
                keeper.outage.over()
            except ValueRefused:
                raise
            except InstallationBroken as error:
                log.warning("trying again in %.0f s: %s", BROKEN_PAUSE_S, error)
                keeper.wakeup.sleep(BROKEN_PAUSE_S)
                continue
            except StoreError as error:
                keeper.outage.met(error)
                keeper.wakeup.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if arguments.drain:
                return
            wait_s = min(look_every_s, OPEN_EVERY_S) if is_open else look_every_s
            keeper.wakeup.wait(wait_s * random.uniform(0.5, 1.5))  # so that a fleet does not ask at once
            looks_for_all = True
    except BaseException as error:
        failures.append(_told(error))
        keeper.stop()


def _told(error: BaseException) -> str:
    """An unexpected error for standard error: a traceback, or a sentence where a person can do something."""
    if isinstance(error, ImportError):
        return f"kvjobs worker: a package cannot be loaded ({error}); is it being installed? The work goes on after it"
    if NO_THREAD in str(error):
        return TOO_FEW_THREADS
    return traceback.format_exc()


def _resume_repaired(database: Database) -> None:
    """Let the jobs go on that were paused because the installation of this machine was not whole."""
    for job_id in jobs_paused_for(database, REASON) if INSTALLATION.is_whole() else ():
        log.warning("job %d goes on: the installation is whole again", job_id)
        resume(database, job_id)


def _look_every_s(arguments: WorkerArguments) -> float:
    """How often a worker looks for work without a wake-up: where a broker sends these, only in case it is away."""
    poll_s = arguments.settings.poll_s
    return poll_s if arguments.node is None else max(poll_s, LOOK_EVERY_S)


def _health(keeper: LeaseKeeper, lanes: list[threading.Thread]) -> Health:
    me, silent_s = ProcessId.current(), time.monotonic() - keeper.answered_at
    is_stuck = not all(lane.is_alive() for lane in lanes) or keeper.watchdog.is_stuck()
    return Health(
        worker_id=keeper.worker_id,
        host=socket.gethostname(),
        pid=me.pid,
        machine=me.machine,
        lives=not is_stuck and silent_s <= keeper.lease_s,
        silent_s=silent_s,
    )


def worker_stats(providers: Providers, lanes: Sequence[Lane]) -> WorkerStats:
    """The stats of this process, with the buffers of its lanes summed up."""
    buffers = sum((lane.buffer_stats for lane in lanes), BufferStats())
    return WorkerStats(
        models=json.dumps({model.name: round(model.load_s, 3) for model in providers.warm().values()}),
        kv_bytes=buffers.num_bytes,
        buffer_allocations=buffers.allocations,
        buffer_reuses=buffers.reuses,
    )


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # do not wait for daemon threads, which may be in a model call or a read
