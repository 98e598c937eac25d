"""Commands that run beside each other, and what they cost: seconds, processor time, and the most memory at one time.

Knows: /proc. Does not know: jobs, databases.
"""

import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLE_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """What commands cost."""

    seconds: float
    cpu_s: float  # of their processes, all of which have ended
    peak_memory: int  # bytes of their processes together; a page that n of them share counts once
    peaks: tuple[int, ...]  # the most that each of `also` gave meanwhile


def run_watched(
    commands: Sequence[Sequence[str]],
    environment: Mapping[str, str],
    also: Sequence[Callable[[], int]] = (),
    stop_after_s: float | None = None,
) -> Cost:
    """Run the commands side by side until all have ended; behind `stop_after_s` they are asked to end. `also`: further
    values to watch. Raises SystemExit with what one wrote where it fails. The caller runs no other processes meanwhile.
    """
    before, started = _children_cpu_s(), time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        processes = [subprocess.Popen(command, env=environment, stdout=log, stderr=log) for command in commands]
        ended = threading.Event()
        peaks = [0] * (1 + len(also))
        watched = [lambda: sum(memory_of_tree(process.pid) for process in processes), *also]

        def sample() -> None:
            while not ended.wait(SAMPLE_EVERY_S):
                for index, value in enumerate(watched):
                    peaks[index] = max(peaks[index], value())

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            if stop_after_s is not None:
                for process in processes:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.0, started + stop_after_s - time.monotonic()))
                for process in processes:
                    process.terminate()
            codes = [process.wait() for process in processes]
            seconds = time.monotonic() - started
        finally:
            for process in processes:
                process.terminate()
            ended.set()
            sampler.join()
        if any(codes):
            log.seek(0)
            raise SystemExit(f"{' '.join(commands[0])} ended with {codes}:\n{log.read()[-2000:]}")
    return Cost(seconds, _children_cpu_s() - before, peaks[0], tuple(peaks[1:]))


def memory_of_tree(pid: int) -> int:
    """Bytes of main memory of a process and of its descendants, of which a page that n processes share counts one n-th;
    0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        children = [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return 0
    own = sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return own + sum(map(memory_of_tree, children))


def size_of_files(folder: Path, pattern: str) -> int:
    """Bytes of the files of a folder whose names match, those that vanish meanwhile left out."""
    total = 0
    for path in folder.glob(pattern):
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
