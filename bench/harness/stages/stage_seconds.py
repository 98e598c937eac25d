"""The seconds of a split model's calls, by stage, in this process and in others, beside those of the whole model. The
body alone: the head is the same in all of them.

Knows: calls of a lane's body. Does not know: folders, printing.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.harness.rows import Ids
from bench.harness.stages.stage_clock import CountedObject, remote_lanes, start_clocked
from worker.engine.causal.native.lane_body import BodyCall, LaneBody
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.runtime.run_context import RunContext

WHOLE, SPLIT, SEPARATE = "whole", "in one process", "separate"
PHASES = ("prefill", "decode")
_SEED = 11


@dataclass(frozen=True, slots=True)
class CallSeconds:
    """The fastest call of many: other work on the machine only adds to it."""

    seconds: float
    by_stage: tuple[float, ...]  # of `seconds`; none of a whole model
    computing: tuple[float, ...]  # of `by_stage`, in the processes of the stages; none where they are not separate
    num_bytes: tuple[int, ...]  # sent to and from the process of each stage

    @property
    def transport(self) -> float:
        """The share of `seconds` that no stage's process computed."""
        return 1 - sum(self.computing) / self.seconds


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed in a round: prompts of equal length are read in one call, then steps add a token to each."""

    prompts: Sequence[Ids]
    steps: int

    @classmethod
    def draw(cls, vocab_size: int, rows: int, length: int, steps: int) -> "Work":
        """Random ids, the same in every run."""
        rng = np.random.default_rng(_SEED)
        return cls(rng.integers(0, vocab_size, (rows, length)).tolist(), steps)


Calls = dict[str, list[tuple[float, list[float], list[float]]]]  # by phase: seconds, by stage, computing


def measure(
    whole: Path, split: Path, separate: Path, work: Work, rounds: int
) -> Mapping[str, Mapping[str, CallSeconds]]:
    """The seconds of a call by model (WHOLE, SPLIT, SEPARATE) and by phase. All take turns; the first round is a
    warm-up."""
    with ExitStack() as stack:
        counted = start_clocked(separate, stack)
        remote: dict[str, list[CountedObject]] = {WHOLE: [], SPLIT: [], SEPARATE: counted}
        bodies = {
            WHOLE: NativeCausal.open(whole).graphs.new_body(),
            SPLIT: NativeCausal.open(split).graphs.new_body(),
            SEPARATE: LaneBody(remote_lanes(counted)),
        }
        calls: dict[str, Calls] = {name: {phase: [] for phase in PHASES} for name in bodies}
        for number in range(rounds + 1):
            for name, body in bodies.items():
                for phase, found in _round(body, remote[name], work).items():
                    calls[name][phase] += found if number else []
        num_bytes = _bytes(bodies[SEPARATE], counted, work)
        return {
            name: {
                phase: _fastest(calls[name][phase], num_bytes[phase] if name == SEPARATE else ()) for phase in PHASES
            }
            for name in bodies
        }


def _round(body: LaneBody, remote: Sequence[CountedObject], work: Work) -> Calls:
    """Read the prompts and take the steps."""
    rng, found = np.random.default_rng(_SEED), Calls()
    rows, length = len(work.prompts), len(work.prompts[0])
    body.begin_slots(rows, length + work.steps)
    body.add_rows(rows)
    for phase, count in zip(PHASES, (1, work.steps), strict=True):
        found[phase] = []
        for step in range(count):
            run = RunContext()
            if phase == "prefill":
                body.read_slots(PackedRows.from_start(work.prompts), 0, BodyCall(run))
            else:
                body.step(rng.integers(0, 100, rows), BodyCall(run, phase, step, length + step))
            *stages, whole = [timing.seconds for timing in run.timings]  # a call's own comes after those of its stages
            found[phase].append((whole, stages, [one.call("taken") for one in remote]))
    return found


def _bytes(body: LaneBody, remote: Sequence[CountedObject], work: Work) -> dict[str, tuple[int, ...]]:
    """Of a call of each phase, by stage. Counting takes time, so it has a round of its own."""
    found: dict[str, tuple[int, ...]] = {}
    rows, length = len(work.prompts), len(work.prompts[0])
    body.begin_slots(rows, length + work.steps)
    body.add_rows(rows)
    for phase in PHASES:
        for one in remote:
            one.counts, one.num_bytes = True, 0
        if phase == "prefill":
            body.read_slots(PackedRows.from_start(work.prompts), 0, BodyCall(RunContext()))
        else:
            body.step(np.zeros(rows, np.int64), BodyCall(RunContext(), phase))
        found[phase] = tuple(one.num_bytes for one in remote)
    return found


def _fastest(calls: Sequence[tuple[float, list[float], list[float]]], num_bytes: tuple[int, ...]) -> CallSeconds:
    seconds, by_stage, computing = min(calls)
    return CallSeconds(seconds, tuple(by_stage), tuple(computing), num_bytes)
