"""The processes that the simulated workers run in, as threads: a Python process for each of a thousand workers would
need more memory than the measurement has."""

import gc
import logging
import multiprocessing
import resource
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

from bench.fleet.simulated_worker import Load, SimulatedWorker, run_workers
from bench.fleet.store_calls import StoreCalls
from jobs.dispatch.broker import make_app

# A thread that has a lock of the database should not wait long for Python. But each thread that waits for Python wakes
# so often: with 250 workers and 0.0005 s all together, that took both cores and hardly a batch was recorded.
SWITCH_S_PER_WORKER = 0.00005
STACK_BYTES = 512 << 10  # of each thread: a thousand workers have four thousand


@dataclass(frozen=True, slots=True)
class Window:
    """Times of `time.monotonic`, which all processes of a machine share."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(slots=True)
class Counted:
    """What the workers of one process, or of several, did in a window."""

    seconds: dict[str, list[float]] = field(default_factory=dict)  # by call
    errors: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    documents: int = 0
    cpu_s: float = 0.0
    memory: int = 0  # bytes resident at most

    def add(self, other: "Counted") -> None:
        for name, some in other.seconds.items():
            self.seconds.setdefault(name, []).extend(some)
        for name, number in other.errors.items():
            self.errors[name] = self.errors.get(name, 0) + number
        self.failures += other.failures
        self.documents += other.documents
        self.cpu_s += other.cpu_s
        self.memory += other.memory


class LoadProcesses:
    """The started processes, whose workers have connected and wait."""

    def __init__(self, url: str, workers: int, load: Load, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []
        self._processes: list[BaseProcess] = []
        for number in range(min(processes, workers)):
            ours, theirs = context.Pipe()
            numbers = range(number, workers, processes)
            arguments = (theirs, url, numbers, load, SWITCH_S_PER_WORKER * workers)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def run(self, window: Window) -> None:
        """Start the workers now, and count what ends within the window. Does not wait for its end."""
        for pipe in self._pipes:
            pipe.send(window)

    def counted(self) -> Counted:
        """Wait for the end of the workers; what they did."""
        total = Counted()
        for pipe in self._pipes:
            total.add(pipe.recv())
        for process in self._processes:
            process.join()
        return total


def _serve(pipe: Pipe, url: str, numbers: Sequence[int], load: Load, switch_s: float) -> None:
    logging.getLogger("worker").setLevel(logging.CRITICAL)  # a stale lease is counted, not printed
    threading.stack_size(STACK_BYTES)
    app = make_app(load.broker) if load.broker else None
    workers = [SimulatedWorker(url, number, load, app) for number in numbers]
    gc.freeze()
    sys.setswitchinterval(switch_s)
    pipe.send("ready")
    window = pipe.recv()
    pipe.send(count(workers, window))


def count(workers: list[SimulatedWorker], window: Window) -> Counted:
    """Run these workers of this process until the end of the window; what they did in it."""
    calls, cpu = StoreCalls(), [0.0, 0.0]
    calls.count_between(window.begin, window.end)
    clock = threading.Thread(target=_note_cpu, args=(window, cpu))
    clock.start()
    with calls.installed():
        run_workers(workers, window.end)
    clock.join()
    return Counted(
        seconds=dict(calls.seconds),
        errors=dict(calls.errors),
        failures=[failure for worker in workers for failure in worker.failures],
        documents=calls.documents,
        cpu_s=cpu[1] - cpu[0],
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    )


def _note_cpu(window: Window, cpu: list[float]) -> None:
    for place, at in enumerate((window.begin, window.end)):
        time.sleep(max(0.0, at - time.monotonic()))
        cpu[place] = time.process_time()
