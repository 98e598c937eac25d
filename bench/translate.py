"""kvjobs beside CTranslate2, transformers and Optimum: the same model, the same ids, in turns.

    python -m bench.translate [--only int8-greedy,ctranslate2] [--segments 256] [--repeats 3] [--all] [--full] [--json]
                              [--work DIR]

Two workloads: `opus-shaped`, a random model of an opus-mt's size, 32 source tokens, 32 target tokens each, the end
suppressed; and the bundled demo model on unseen bulletins of all lengths, which end by themselves. Each engine runs in
a process of its own, is warmed up, finds its best settings first, and then all take turns: A B C A B C ... Rates are
target tokens a second, the median of the rounds. The default run takes about ten minutes on two cores. `--all` has
works with models of other sizes too; `--full` all works with four times the segments, five rounds and more peers.
What was built and converted stays in `--work`, and so does the name of the kernels with which CTranslate2 is fastest on
this machine.

Needs the extra `bench`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from bench.checkpoints.folders import made_once
from bench.harness.engine import Engine, Ids, Run, Search
from bench.harness.flops import Sizes, flop_per_token
from bench.harness.kernels import fastest_kernels
from bench.harness.machine import cpu_name, load_average
from bench.harness.processes.workers import Workers
from bench.harness.rows import MILLISECONDS, Row, compare, equal_tokens, share_of_peak
from bench.harness.selection import choose, unknown
from bench.harness.tables.table import Used, print_report
from bench.harness.works import BIG, DEMO, MIXED, PEERS, SOURCE_TOKENS, TARGET_TOKENS, TINY, WORKS, Work, offered
from jobs.system.process import available_cores

OURS = "kvjobs"
REFERENCE = ("transformers-fp32", "fp32")  # the others' ids are compared with its own
_PAUSE_S = 0.3  # between two runs: OpenMP's threads spin for 0.2 s after their last work
_WARM_UP_TOKENS = 4
_CALLS = 8  # of a round, where each is timed
_FULL = 4  # times the segments
_SHARES = {DEMO: 2, TINY: 2, BIG: 0.5}  # of the segments

Key = tuple[str, str]  # an engine: its name, its precision


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, and the segments it translates."""

    checkpoint: Path
    segments: list[Ids]
    search: Search
    num_tried: int  # segments of a first run, which warms up and chooses kernels
    num_reference: int  # segments that the reference translates if it is not a peer
    alone: int = 0  # segments of a call, each of which is timed; 0: all at once

    def given_to(self, key: Key) -> list[Ids]:
        """The segments that an engine runs: all, or the first ones for slow engines."""
        share = PEERS[key[0]].share if key[0] in PEERS else 1
        return self.segments[: max(1, len(self.segments) // share)]

    def calls_of(self, key: Key) -> list[list[Ids]]:
        """The segments of each call that an engine gets in a round."""
        segments, size = self.given_to(key), self.alone or len(self.segments)
        return [segments[start : start + size] for start in range(0, len(segments), size)]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one engine did in a group."""

    runs: list[Run]
    ids: list[Ids]  # of the first round
    configuration: str
    head_size: int | None
    peak_memory: int

    @property
    def rates(self) -> list[float]:
        return [run.rate for run in self.runs]

    @property
    def cpu_rate(self) -> float:
        return statistics.median(run.cpu_rate for run in self.runs)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.translate", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="works and peers, with commas between them")
    parser.add_argument("--segments", type=int, default=256, help="of the greedy works; a quarter of them for beams")
    parser.add_argument("--repeats", type=int, help="rounds; 3, or 5 with --full")
    parser.add_argument("--all", action="store_true", help="every work, not only those of the default run")
    parser.add_argument("--full", action="store_true", help="every work, four times the segments, more peers")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    if odd := unknown(WORKS, PEERS, only):
        parser.error(f"--only: nothing is called {', '.join(odd)}")
    works = list(choose(offered(only, everything=options.all or options.full), PEERS, only, options.full))
    segments = options.segments * (_FULL if options.full else 1)
    repeats = options.repeats or (5 if options.full else 3)
    rows: list[Row] = []
    used: list[Used] = []
    with tempfile.TemporaryDirectory() as name:
        load = load_average()
        peaks = _peaks()
        for (model, beams, alone), group in groupby(works, lambda work: (work.model, work.beams, work.alone)):
            folder = (options.work or Path(name)).absolute() / model
            some = list(group)
            title = f"{model}, {f'beam {beams}' if beams > 1 else 'greedy'}" + (f", {alone} alone" if alone else "")
            _say(title)
            workload = prepare(folder, model, beams, segments, alone)
            measured = measure(some, workload, folder, repeats)
            rows += _rows(some, workload, measured, reference(workload, folder, measured), peaks)
            used += [Used(title, *key, engine.configuration, engine.peak_memory) for key, engine in measured.items()]
    if options.json:
        print(json.dumps([row.as_json() for row in rows]))
    else:
        print_report(rows, used, cpu_name(), peaks, (load, load_average()))


def prepare(folder: Path, model: str, beams: int, segments: int, alone: int = 0) -> Workload:
    """The checkpoint of a model, made if it is missing, and the segments to translate.

    A beam search gets a quarter of the segments: it has four times the rows. Small models get twice as many, large ones
    half as many. With `alone` there are a few calls of so many segments.
    """
    from bench.harness.segments import bulletin_segments, mixed_segments, random_segments

    checkpoint = folder / "checkpoint"
    count = max(1, int(_SHARES.get(model, 1) * segments) // (4 if beams > 1 else 1))
    if model == DEMO:
        made_once(checkpoint, lambda out: ["bench.checkpoints.demo_checkpoint", "--out", str(out)])
        ids = bulletin_segments(checkpoint, count)
        return Workload(checkpoint, ids, Search(beams, None), num_tried=512, num_reference=64)
    made_once(checkpoint, lambda out: ["bench.checkpoints.models", model, "--layout", "checkpoint", "--out", str(out)])
    if model == MIXED:
        ids = mixed_segments(checkpoint, count)
        return Workload(checkpoint, ids, Search(beams, None), num_tried=64, num_reference=64)
    if alone:
        ids = random_segments(checkpoint, alone * _CALLS, SOURCE_TOKENS)
        return Workload(checkpoint, ids, Search(beams, TARGET_TOKENS), num_tried=alone, num_reference=16, alone=alone)
    ids = random_segments(checkpoint, count, SOURCE_TOKENS)
    return Workload(checkpoint, ids, Search(beams, TARGET_TOKENS), num_tried=64 // beams, num_reference=16)


def measure(works: Sequence[Work], workload: Workload, folder: Path, repeats: int) -> dict[Key, Measured]:
    """Run all engines of the works in turns."""
    keys = list(dict.fromkeys(key for work in works for key in ((OURS, work.precision), *map(_key(work), work.peers))))
    runs: dict[Key, list[Run]] = {key: [] for key in keys}
    calls = {key: workload.calls_of(key) for key in keys}
    with ExitStack() as stack:
        engines: dict[Key, Engine | Workers] = {}
        for key in keys:
            engines[key] = stack.enter_context(_open(key, workload, folder))
            _warm_up(engines[key], key, workload)
        for number in range(repeats):
            _say(f"  round {number + 1} of {repeats}, load {load_average():.1f}")
            for key, engine in engines.items():
                time.sleep(_PAUSE_S)
                runs[key] += [engine.run(call, workload.search) for call in calls[key]]
                _say(f"    {' '.join(key):32} {runs[key][-1].rate:10,.0f} tokens/s")
        return {
            key: Measured(
                runs[key],
                [ids for run in runs[key][: len(calls[key])] for ids in run.ids],
                engine.configuration(workload.search),
                engine.head_size(),
                engine.peak_memory(),
            )
            for key, engine in engines.items()
        }


def reference(workload: Workload, folder: Path, measured: Mapping[Key, Measured]) -> list[Ids]:
    """The ids that transformers in fp32 gives for the first segments; it is run for this unless it was a peer."""
    if REFERENCE in measured:
        return measured[REFERENCE].ids
    with _open(REFERENCE, workload, folder) as engine:
        return engine.run(workload.segments[: workload.num_reference], workload.search).ids


def _key(work: Work) -> Callable[[str], Key]:
    return lambda peer: (peer, PEERS[peer].precision or work.precision)


def _open(key: Key, workload: Workload, folder: Path) -> Engine | Workers:
    """Open the engine; CTranslate2 with the kernels that are fastest here, which have to be set before it starts."""
    name, precision = key
    _say(f"  {name} {precision}")
    if name in PEERS and PEERS[name].processes:
        return Workers(PEERS[name].module, precision, workload.checkpoint, folder, available_cores())
    if name != "ctranslate2":
        return Engine(PEERS[name].module if name in PEERS else "ours", precision, workload.checkpoint, folder)

    def rate(environment: Mapping[str, str]) -> float:
        with Engine(PEERS[name].module, precision, workload.checkpoint, folder, environment) as engine:
            some = workload.segments[: workload.num_tried]
            engine.run(some, _short(workload.search))
            return engine.run(some, workload.search).cpu_rate

    environment = fastest_kernels(folder / f"ctranslate2-{precision}-kernels.json", rate, _say)
    return Engine(PEERS[name].module, precision, workload.checkpoint, folder, environment)


def _warm_up(engine: Engine | Workers, key: Key, workload: Workload) -> None:
    """Run once, and let the engine search for its best settings."""
    segments = workload.calls_of(key)[0]
    engine.run(segments[: workload.num_tried], _short(workload.search))
    engine.tune(segments, workload.search)


def _short(search: Search) -> Search:
    return Search(search.beams, search.forced_length and min(search.forced_length, _WARM_UP_TOKENS))


def _rows(
    works: Iterable[Work],
    workload: Workload,
    measured: Mapping[Key, Measured],
    wanted: Sequence[Ids],
    peaks: Mapping[str, float],
) -> Iterator[Row]:
    shares, equal = {}, {}
    for key, engine in measured.items():
        ids = engine.ids
        common = min(len(ids), len(wanted))
        equal[key] = equal_tokens(ids[:common], wanted[:common])
        if key[1] in peaks:
            flop = _flop_per_token(workload, ids, engine.head_size)
            shares[key] = share_of_peak(statistics.median(engine.rates), flop, peaks[key[1]])
    for work in works:
        ours = (OURS, work.precision)
        for theirs in map(_key(work), work.peers):
            row = compare(work.name, theirs[0], *(_figures(measured[side], work.alone) for side in (ours, theirs)))
            yield replace(
                row,
                unit=MILLISECONDS if work.alone else row.unit,
                cpu_ratio=measured[ours].cpu_rate / measured[theirs].cpu_rate,
                our_share=shares.get(ours),
                their_share=shares.get(theirs),
                our_equal=equal[ours],
                their_equal=equal[theirs],
            )


def _figures(measured: Measured, alone: int) -> list[float]:
    """Milliseconds of each call, or the rates."""
    return [1000 * run.seconds for run in measured.runs] if alone else measured.rates


def _flop_per_token(workload: Workload, ids: Sequence[Ids], head_size: int | None) -> float:
    """For the lengths that came out; a generated end-of-sentence counts as a step."""
    sizes = Sizes.read(workload.checkpoint)
    search = workload.search
    said = statistics.fmean(map(len, ids))
    steps = said if search.forced_length else said + 1
    source = statistics.fmean(len(segment) for segment in workload.segments[: len(ids)])
    flop = flop_per_token(
        replace(sizes, head=head_size or sizes.head), source_tokens=source, target_tokens=steps, beams=search.beams
    )
    return flop * steps / said


def _peaks() -> dict[str, float]:
    from bench.roof import measure, peaks

    _say("the machine's products")
    return peaks(list(measure(seconds=0.1)))


def _say(line: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
