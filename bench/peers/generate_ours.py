"""kvjobs: lanes with shared sessions, each continues its own prompts, as a worker's lanes do with their shards."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from bench.checkpoints.folders import made_once
from bench.harness.fastest import fastest
from jobs.system.process import available_cores
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import Generator
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

_BATCH_SIZES = (8, 16, 32)  # rows of a lane


@dataclass(frozen=True, slots=True)
class Setting:
    """How the prompts are spread over the cores."""

    lanes: int
    threads: int  # of each lane
    batch_size: int


class Model:
    """The graphs, opened once for each number of threads, and their lanes."""

    def __init__(self, folder: Path, precision: str) -> None:
        self.precision = precision
        self.setting = Setting(available_cores(), 1, max(_BATCH_SIZES))
        self._folder = folder
        self._lanes: dict[int, list[Generator]] = {}

    def lanes(self, setting: Setting) -> list[Generator]:
        """The lanes of a setting."""
        if setting.threads not in self._lanes:
            network = NativeCausal.open(self._folder, threads=setting.threads)
            self._lanes[setting.threads] = [network.new_generator() for _ in range(setting.lanes)]
        return self._lanes[setting.threads]

    def keep(self, setting: Setting) -> None:
        """Use this setting from now on, and free what others need."""
        self.setting = setting
        self._lanes = {setting.threads: self._lanes[setting.threads]}


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Make the model as `kvjobs models add CHECKPOINT --precision PRECISION` does."""
    made = made_once(folder / f"ours-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision])
    return Model(made, precision)


def tune(model: Model, prompts: list[list[int]], new_tokens: int) -> None:
    """A lane per core or one lane on all cores; then the number of rows."""
    cores, most_rows = available_cores(), max(_BATCH_SIZES)
    layouts = [Setting(*layout, most_rows) for layout in dict.fromkeys([(cores, 1), (1, cores)])]
    best = fastest(layouts, lambda setting: _generate(model, setting, prompts, new_tokens))
    share = -(-len(prompts) // best.lanes)
    fewer = [replace(best, batch_size=size) for size in _BATCH_SIZES if size < min(share, most_rows)]
    model.keep(fastest([best, *fewer], lambda setting: _generate(model, setting, prompts, new_tokens)))


def generate(model: Model, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """What each prompt is continued with."""
    return _generate(model, model.setting, prompts, new_tokens)


def _generate(model: Model, setting: Setting, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """Each of n lanes takes every n-th prompt, longest first, so that all have the same amount of work."""
    rules = ContinuationRules(max_new_tokens=new_tokens)
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    found: list[list[int]] = [[]] * len(prompts)
    lanes = model.lanes(setting)

    def work(lane: int) -> None:
        share = order[lane :: len(lanes)]
        ids = [prompts[index] for index in share]
        for ended in lanes[lane].generate(ids, rules, RunContext(), batch_size=setting.batch_size):
            for place, continuation in ended:
                found[share[place]] = list(continuation.ids)

    with ThreadPoolExecutor(len(lanes)) as threads:
        for _ in threads.map(work, range(len(lanes))):  # raises what a lane raised
            pass
    return found


def configuration(model: Model) -> str:
    setting = model.setting
    return (
        f"kvjobs {version('kvjobs')}, onnxruntime {version('onnxruntime')}, {model.precision}, {setting.lanes} lanes "
        f"of {setting.threads} threads, {setting.batch_size} rows each"
    )
