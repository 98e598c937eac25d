"""kvjobs beside transformers and llama.cpp: log-probabilities of the same ids under the same model, in turns.

    python -m bench.score [--only int8,mixed-fp32,llamacpp-f32] [--repeats 3] [--full] [--json] [--work DIR]
                          [--shape qwen-tiny]

The model is `qwen-shaped`: random weights in the sizes of Qwen2.5-0.5B. Two workloads: sequences of 256 tokens, and of
10 to 500, mixed. Each engine runs in a process of its own, is warmed up, and then all take turns: A B C A B C ... Rates
are tokens of the sequences per second (padding does not count), the median of the rounds. `--full` has more sequences,
five rounds, and transformers without padding, a sequence at a time. What was built and converted stays in `--work`
(9 GB).

Needs the extra `bench`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES
from bench.checkpoints.folders import made_once
from bench.harness.machine import cpu_name, load_average
from bench.harness.rows import Row, compare
from bench.harness.score_engine import Ids, Run, ScoreEngine
from bench.harness.selection import choose, unknown
from bench.harness.tables.score_table import Used, print_report

OURS = "kvjobs"
REFERENCE = "transformers-fp32"  # the others' log-probabilities are compared with its own
_PAUSE_S = 0.3  # between two runs: OpenMP's threads spin for 0.2 s after their last work
_SHORTEST, _LONGEST, _EQUAL = 10, 500, 256  # tokens


@dataclass(frozen=True, slots=True)
class Peer:
    """Another engine: a module of bench.peers, and its precision."""

    module: str
    precision: str


@dataclass(frozen=True, slots=True)
class Work:
    """One workload of the comparison."""

    name: str
    precision: str  # ours
    mixed: bool
    peers: tuple[str, ...]
    more_peers: tuple[str, ...] = ()  # with --full


PEERS = {
    "transformers-fp32": Peer("score_transformers", "fp32"),
    "transformers-bf16": Peer("score_transformers", "bf16"),
    "transformers-fp32-alone": Peer("score_transformers", "fp32-alone"),
    "transformers-bf16-alone": Peer("score_transformers", "bf16-alone"),
    "llamacpp-f32": Peer("score_llamacpp", "f32"),
    "llamacpp-q8_0": Peer("score_llamacpp", "q8_0"),
}
_EVERYBODY = ("transformers-fp32", "transformers-bf16", "llamacpp-f32", "llamacpp-q8_0")
_ALONE = ("transformers-fp32-alone", "transformers-bf16-alone")
WORKS = (
    Work("fp32", "fp32", mixed=False, peers=_EVERYBODY),
    Work("int8", "int8", mixed=False, peers=_EVERYBODY),
    Work("mixed-fp32", "fp32", mixed=True, peers=_EVERYBODY, more_peers=_ALONE),
    Work("mixed-int8", "int8", mixed=True, peers=_EVERYBODY, more_peers=_ALONE),
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.score", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="works and peers, with commas between them")
    parser.add_argument("--repeats", type=int, help="rounds; 3, or 5 with --full")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--shape", choices=CAUSAL_SHAPES, default="qwen-shaped")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    if odd := unknown(WORKS, PEERS, only):
        parser.error(f"--only: nothing is called {', '.join(odd)}")
    rows: list[Row] = []
    used: list[Used] = []
    with tempfile.TemporaryDirectory() as name:
        load = load_average()
        folder = (options.work or Path(name)).absolute() / options.shape
        checkpoint = made_once(
            folder / "checkpoint", lambda out: ["bench.checkpoints.causal_models", options.shape, "--out", str(out)]
        )
        works = list(choose(WORKS, PEERS, only, options.full))
        for mixed in (False, True):
            group = [work for work in works if work.mixed == mixed]
            if group:
                sequences = draw(CAUSAL_SHAPES[options.shape].vocab_size, mixed, options.full)
                more, engines = measure(group, sequences, checkpoint, folder, options.repeats or 3 + 2 * options.full)
                rows += more
                used += engines
    if options.json:
        print(json.dumps([row.as_json() for row in rows]))
    else:
        print_report(rows, used, cpu_name(), (load, load_average()))


def draw(vocab_size: int, mixed: bool, full: bool) -> list[Ids]:
    """Random ids, the same in every run."""
    rng = np.random.default_rng(5)
    count = 4 * (2 if mixed else 1) * (2 if full else 1)
    # Spread evenly over the range, in random order: so few lengths drawn at random would vary too much.
    spread = rng.permutation(np.linspace(_SHORTEST, _LONGEST, count).astype(int))
    lengths = spread if mixed else [_EQUAL] * count
    return [rng.integers(0, vocab_size, length).tolist() for length in lengths]


def measure(
    works: Sequence[Work], sequences: Sequence[Ids], checkpoint: Path, folder: Path, repeats: int
) -> tuple[list[Row], list[Used]]:
    """Run all engines of the works in turns; return the rows, and the settings of each engine."""
    title = "mixed lengths" if works[0].mixed else "equal lengths"
    _say(f"{title}: {len(sequences)} sequences, {sum(map(len, sequences)):,} tokens")
    # Before each turn, not counted: while the others ran, the system may have taken the weights out of memory.
    short = [ids[:16] for ids in sequences[:2]]
    ours = [f"{OURS} {work.precision}" for work in works]
    names = list(dict.fromkeys([*ours, *(peer for work in works for peer in work.peers)]))
    runs: dict[str, list[Run]] = {name: [] for name in names}
    with ExitStack() as stack:
        engines: dict[str, ScoreEngine] = {}
        for name in names:
            _say(f"  {name}")
            peer = PEERS.get(name) or Peer("score_ours", name.removeprefix(f"{OURS} "))
            engines[name] = stack.enter_context(ScoreEngine(peer.module, peer.precision, checkpoint, folder))
            engines[name].score(short)
            engines[name].tune(sequences)
        for number in range(repeats):
            _say(f"  round {number + 1} of {repeats}, load {load_average():.1f}")
            for name, engine in engines.items():
                time.sleep(_PAUSE_S)
                engine.score(short)
                runs[name].append(engine.score(sequences))
                _say(f"    {name:24} {runs[name][-1].rate:10,.0f} tokens/s")
        used = [Used(title, name, engine.configuration(), engine.peak_memory()) for name, engine in engines.items()]
    return [*_rows(works, runs)], [replace(one, drift=_drift(runs, one.name)) for one in used]


def _rows(works: Sequence[Work], runs: Mapping[str, Sequence[Run]]) -> Iterator[Row]:
    for work in works:
        ours = runs[f"{OURS} {work.precision}"]
        for peer in work.peers:
            row = compare(work.name, peer, [run.rate for run in ours], [run.rate for run in runs[peer]])
            cpu = [statistics.median(run.cpu_rate for run in side) for side in (ours, runs[peer])]
            yield replace(row, cpu_ratio=cpu[0] / cpu[1])


def _drift(runs: Mapping[str, Sequence[Run]], name: str) -> float | None:
    """The greatest difference of a log-probability from the reference's, in nats; None without the reference."""
    if REFERENCE not in runs:
        return None
    pairs = zip(runs[name][0].log_probs, runs[REFERENCE][0].log_probs, strict=True)
    return max(float(np.abs(np.subtract(one, other)).max()) for one, other in pairs)


def _say(line: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
