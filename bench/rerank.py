"""Reranking with the shared prefix computed once, beside computing every candidate alone.

    python -m bench.rerank [--candidates 100] [--prefix 512] [--suffix 64] [--alone 10] [--repeats 3]
                           [--precision fp32] [--shape qwen-shaped] [--json] [--work DIR]

One query whose candidates begin with the same P tokens and go on with S of their own, on the model of `bench.score`,
one lane of one thread. Without reuse every candidate takes P + S tokens, so measuring `--alone` of them is enough.
With the prefix computed once, P + n S of n (P + S) tokens are left: a ratio of (P + S) / S for many candidates.

Needs the extra `bench`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES
from bench.checkpoints.folders import made_once
from bench.harness.machine import cpu_name, load_average
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import Group, LogProbs, Reader, read_all
from worker.engine.runtime.run_context import RunContext


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rerank", description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--prefix", type=int, default=512, help="tokens that all candidates share")
    parser.add_argument("--suffix", type=int, default=64, help="tokens of each candidate behind the prefix")
    parser.add_argument("--alone", type=int, default=10, help="candidates that are computed whole")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "int8"))
    parser.add_argument("--shape", choices=CAUSAL_SHAPES, default="qwen-shaped")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    num_alone = min(options.alone, options.candidates)
    with tempfile.TemporaryDirectory() as name:
        folder = (options.work or Path(name)).absolute() / options.shape
        reader = _open(folder, options.shape, options.precision).new_reader()
        prefix, suffixes = _draw(options)
        shared_s: list[tuple[float, float]] = []  # for each candidate: by the clock, of processor time
        alone_s: list[tuple[float, float]] = []
        _read(reader, [Group(prefix[:16], suffixes[:2])])
        for _ in range(options.repeats):
            (seconds, cpu_s), together = _read(reader, [Group(prefix, suffixes)])
            shared_s.append((seconds / len(suffixes), cpu_s / len(suffixes)))
            (seconds, cpu_s), alone = _read(reader, [Group(prefix, [suffix]) for suffix in suffixes[:num_alone]])
            alone_s.append((seconds / num_alone, cpu_s / num_alone))
    (ours, our_cpu), (theirs, their_cpu) = (
        [1 / statistics.median(times) for times in zip(*runs, strict=True)] for runs in (shared_s, alone_s)
    )
    row = {"work": f"rerank-{options.precision}", "peer": "no-reuse", "ours": round(ours, 2)}
    row |= {"theirs": round(theirs, 2), "unit": "candidates/s", "ratio": round(ours / theirs, 3)}
    row |= {"cpu_ratio": round(our_cpu / their_cpu, 3)}
    if options.json:
        print(json.dumps([row]))
        return
    most = (options.prefix + options.suffix) / options.suffix
    drift = max(float(np.abs(one - other).max()) for one, other in zip(together[:num_alone], alone, strict=True))
    print(f"{options.candidates} candidates, {options.prefix} + {options.suffix} tokens, {options.precision}:")
    print(
        f"  the prefix once {ours:.2f} candidates/s, each alone {theirs:.2f}: {ours / theirs:.2f} x "
        f"({our_cpu / their_cpu:.2f} x by CPU time)"
    )
    print(f"  (P + S) / S is {most:.2f}: {ours / theirs / most:.2f} of it; they differ by at most {drift:.1e} nats")
    print(f"{cpu_name()}; load average {load_average():.2f}")


def _open(folder: Path, shape: str, precision: str) -> NativeCausal:
    checkpoint = made_once(
        folder / "checkpoint", lambda out: ["bench.checkpoints.causal_models", shape, "--out", str(out)]
    )
    made = made_once(folder / f"ours-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision])
    return NativeCausal.open(made)


def _draw(options: argparse.Namespace) -> tuple[list[int], list[list[int]]]:
    """Random ids, the same ones every time."""
    rng, vocab_size = np.random.default_rng(5), CAUSAL_SHAPES[options.shape].vocab_size
    suffixes = rng.integers(0, vocab_size, (options.candidates, options.suffix)).tolist()
    return rng.integers(0, vocab_size, options.prefix).tolist(), suffixes


def _read(reader: Reader, groups: Sequence[Group]) -> tuple[tuple[float, float], list[LogProbs]]:
    """(seconds by the clock and of processor time, log-probabilities of every suffix in order)."""
    started, cpu_started = time.perf_counter(), time.process_time()
    found = read_all(reader, groups, RunContext())
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    return (seconds, cpu_s), [log_probs for group in found for log_probs in group]


if __name__ == "__main__":
    main()
