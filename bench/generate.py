"""kvjobs beside transformers and llama.cpp: the same prompts continued greedily by the same model, in turns.

    python -m bench.generate [--only int8,llamacpp-q8_0] [--repeats 3] [--prompts 32] [--longest 100] [--new 32]
                             [--shape qwen-shaped|qwen-quarter|qwen-tiny|demo-lm] [--full] [--json] [--work DIR]

Prompts of 4 to `--longest` tokens, spread evenly, are continued by `--new` tokens each; no id ends a continuation, so
all engines take the same steps. `qwen-shaped` has random weights in the sizes of Qwen2.5-0.5B and gets random ids;
`demo-lm` is the bundled model and gets the beginnings of weather bulletins. Each engine runs in a process of its own,
finds its best settings first, and then all take turns: A B C A B C ... Rates are generated tokens per second, the
reading of the prompts included, the median of the rounds. `--full` runs five rounds. What was built and converted
stays in `--work` (9 GB). On a machine that others use, `taskset -c 0 python -m bench.generate` gives every engine one
thread, and the ratio by processor time is the one to read: no thread waits for another.

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

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES
from bench.checkpoints.folders import made_once
from bench.harness.generate_engine import GenerateEngine, Ids, Run
from bench.harness.machine import cpu_name, load_average
from bench.harness.prompts import bulletin_prompts, random_prompts
from bench.harness.rows import Row, compare, equal_tokens
from bench.harness.selection import choose, unknown
from bench.harness.tables.generate_table import Used, print_report

OURS = "kvjobs"
REFERENCE = "transformers-fp32"  # the others' ids are compared with its own
DEMO = "demo-lm"
SHAPES = (*CAUSAL_SHAPES, DEMO)
_PAUSE_S = 0.3  # between two runs: OpenMP's threads spin for 0.2 s after their last work
_WARM_UP_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """Another engine: a module of bench.peers, and its precision."""

    module: str
    precision: str


@dataclass(frozen=True, slots=True)
class Work:
    """One workload of the comparison."""

    name: str  # our precision
    peers: tuple[str, ...]
    more_peers: tuple[str, ...] = ()


PEERS = {
    "transformers-fp32": Peer("generate_transformers", "fp32"),
    "transformers-bf16": Peer("generate_transformers", "bf16"),
    "llamacpp-f32": Peer("generate_llamacpp", "f32"),
    "llamacpp-f32-kv32": Peer("generate_llamacpp", "f32-kv32"),
    "llamacpp-q8_0": Peer("generate_llamacpp", "q8_0"),
}
WORKS = (
    Work("fp32", ("transformers-fp32", "llamacpp-f32", "llamacpp-f32-kv32")),
    Work("int8", ("transformers-bf16", "llamacpp-q8_0")),
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.generate", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="works and peers, with commas between them")
    parser.add_argument("--repeats", type=int, help="rounds; 3, or 5 with --full")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--longest", type=int, default=100, help="tokens of the longest prompt")
    parser.add_argument("--new", type=int, default=32, help="tokens that each prompt is continued by")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--shape", choices=SHAPES, default="qwen-shaped")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    if odd := unknown(WORKS, PEERS, only):
        parser.error(f"--only: nothing is called {', '.join(odd)}")
    if smallest := [name for name in ("prompts", "longest", "new") if getattr(options, name) < 1]:
        parser.error(f"--{smallest[0]}: the smallest is 1")
    with tempfile.TemporaryDirectory() as name:
        load = load_average()
        folder = (options.work or Path(name)).absolute() / options.shape
        checkpoint = made_once(folder / "checkpoint", lambda out: [*_maker(options.shape), "--out", str(out)])
        prompts = draw(options.shape, checkpoint, options.prompts, options.longest)
        works = list(choose(WORKS, PEERS, only, options.full))
        repeats = options.repeats or 3 + 2 * options.full
        runs, used = measure(works, prompts, options.new, checkpoint, folder, repeats)
    rows = list(compared(works, runs))
    if options.json:
        print(json.dumps([row.as_json() for row in rows]))
    else:
        print_report(rows, used, cpu_name(), (load, load_average()))


def draw(shape: str, checkpoint: Path, count: int, longest: int) -> list[Ids]:
    """The prompts, the same in every run."""
    if shape == DEMO:
        return bulletin_prompts(checkpoint, count, longest)
    return random_prompts(CAUSAL_SHAPES[shape].vocab_size, count, longest)


def measure(
    works: Sequence[Work], prompts: Sequence[Ids], new_tokens: int, checkpoint: Path, folder: Path, repeats: int
) -> tuple[dict[str, list[Run]], list[Used]]:
    """Run all engines of the works in turns; the reference runs once if it is not a peer. Returns each engine's runs,
    and its settings."""
    _say(f"{len(prompts)} prompts, {sum(map(len, prompts)):,} tokens, {new_tokens} new ones each")
    names = list(dict.fromkeys(name for work in works for name in (f"{OURS} {work.name}", *work.peers)))
    runs: dict[str, list[Run]] = {name: [] for name in names}
    if REFERENCE not in names:
        with _open(REFERENCE, checkpoint, folder) as engine:
            runs[REFERENCE] = [engine.generate(prompts, new_tokens)]
    with ExitStack() as stack:
        engines: dict[str, GenerateEngine] = {}
        for name in names:
            engines[name] = stack.enter_context(_open(name, checkpoint, folder))
            engines[name].tune(prompts, -(-new_tokens // 2))
        for number in range(repeats):
            _say(f"  round {number + 1} of {repeats}, load {load_average():.1f}")
            for name, engine in engines.items():
                time.sleep(_PAUSE_S)
                # Not counted: while the others ran, the system may have taken the weights out of memory.
                engine.generate(prompts, min(new_tokens, _WARM_UP_TOKENS))
                runs[name].append(engine.generate(prompts, new_tokens))
                _say(f"    {name:24} {runs[name][-1].rate:10,.1f} tokens/s")
        return runs, [_used(name, engine, runs[name]) for name, engine in engines.items()]


def compared(works: Sequence[Work], runs: Mapping[str, Sequence[Run]]) -> Iterator[Row]:
    """A row for each work and peer."""
    wanted = runs[REFERENCE][0].ids
    for work in works:
        ours = runs[f"{OURS} {work.name}"]
        for peer in work.peers:
            theirs = runs[peer]
            row = compare(work.name, peer, [run.rate for run in ours], [run.rate for run in theirs])
            our_cpu, their_cpu = (statistics.median(run.cpu_rate for run in side) for side in (ours, theirs))
            yield replace(
                row,
                cpu_ratio=our_cpu / their_cpu,
                our_equal=equal_tokens(ours[0].ids, wanted),
                their_equal=equal_tokens(theirs[0].ids, wanted),
            )


def _maker(shape: str) -> list[str]:
    """The module that writes the checkpoint, and its arguments."""
    return ["bench.checkpoints.lm_checkpoint"] if shape == DEMO else ["bench.checkpoints.causal_models", shape]


def _open(name: str, checkpoint: Path, folder: Path) -> GenerateEngine:
    _say(f"  {name}")
    peer = PEERS.get(name) or Peer("generate_ours", name.removeprefix(f"{OURS} "))
    return GenerateEngine(peer.module, peer.precision, checkpoint, folder)


def _used(name: str, engine: GenerateEngine, runs: Sequence[Run]) -> Used:
    seconds, cpu_s = (statistics.median(getattr(run, part) for run in runs) for part in ("seconds", "cpu_s"))
    return Used(name, engine.configuration(), engine.peak_memory(), seconds, cpu_s)


def _say(line: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
