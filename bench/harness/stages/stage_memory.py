"""The memory of a model in one process, and of its stages in processes of their own, with a limit and without.

Knows: /proc, RLIMIT_DATA. Does not know: how a limit is chosen.
"""

import os
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from bench.harness.processes.own_process import in_own_process
from bench.harness.rows import Ids
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.separate_stages import SeparateStages
from worker.engine.runtime.out_of_memory import is_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

_NEW_TOKENS = 4


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Bytes of one process."""

    name: str
    data: int  # VmData: what the limit counts
    anonymous: int  # RssAnon
    proportional: int  # Pss: resident, pages of files included, those that n processes share divided by n


@dataclass(frozen=True, slots=True)
class Use:
    """What happened."""

    processes: tuple[ProcessMemory, ...]  # none where memory ran out
    ids: tuple[Ids, ...]
    error: str | None = None  # why it failed


def use(folder: Path, prompts: Sequence[Ids], limit: int | None = None) -> Use:
    """Continue prompts in a new process that may allocate so many bytes. Raises what it raises but for a lack of
    memory."""
    try:
        return in_own_process(_use, folder, prompts, limit)
    except BrokenProcessPool:  # not every allocation that fails can be caught
        if limit is None:
            raise
        return Use((), (), "out of memory: the process ended")


def _use(folder: Path, prompts: Sequence[Ids], limit: int | None) -> Use:
    if limit is not None:
        # As `stage_program` does it, and as `worker.process.memory_limits`.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    try:
        model = NativeCausal.open(folder)
        generator = model.new_generator()
        rules = ContinuationRules(max_new_tokens=_NEW_TOKENS)
        ended = generator.generate(prompts, rules, RunContext(), batch_size=len(prompts))
        found = dict(pair for some in ended for pair in some)
        pids = {"process": os.getpid()} | {f"stage {number}": pid for number, pid in enumerate(_stage_pids(model))}
        memory = tuple(_memory(name, pid) for name, pid in pids.items())
        return Use(memory, tuple(list(found[place].ids) for place in range(len(prompts))))
    except Exception as error:
        if limit is None or not any(map(is_out_of_memory, _causes(error))):
            raise
        # The last words of onnxruntime's message, which names its files first.
        return Use((), (), f"out of memory: {str(error).strip().rpartition(': ')[2] or type(error).__name__}")


def _causes(error: BaseException | None) -> Iterator[Exception]:
    while isinstance(error, Exception):
        yield error
        error = error.__cause__


def _stage_pids(model: NativeCausal) -> list[int]:
    """The processes of its stages, in their order."""
    parts = model.graphs._parts
    return parts.processes.pids if isinstance(parts, SeparateStages) else []


def _memory(name: str, pid: int) -> ProcessMemory:
    status, rollup = (Path(f"/proc/{pid}/{file}").read_text() for file in ("status", "smaps_rollup"))
    return ProcessMemory(name, _field(status, "VmData"), _field(status, "RssAnon"), _field(rollup, "Pss"))


def _field(text: str, name: str) -> int:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
