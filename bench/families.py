"""Each family of models beside CTranslate2 and transformers: the same random model, the same ids, in turns.

    python -m bench.families [--only t5,gpt2,ctranslate2] [--precision fp32|int8] [--beams 1] [--segments 64]
                             [--prompts 32] [--new 32] [--repeats 3] [--size distilled|tiny] [--json] [--work DIR]

Translation models get `--segments` sources, causal models `--prompts` prompts, of 32 random tokens; each gets `--new`
tokens, greedily, and no end-of-sentence ends it, so that all engines take the same steps. `--beams 4` has translation
models alone, with a beam search. The models have the size of distilled ones and random weights. Each engine runs in a
process of its own, finds its best settings first, and then all take turns: A B C A B C ... Rates are generated tokens a
second, reading the source included, the median of the rounds. What was built and converted stays in `--work`.

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

from bench.checkpoints.family_shapes import DISTILLED, FAMILIES, SIZES
from bench.checkpoints.folders import made_once
from bench.harness import generate_engine
from bench.harness.engine import Run
from bench.harness.family_engine import CTRANSLATE2, OURS, TRANSFORMERS, FamilyEngine, Ids, Work, opened
from bench.harness.kernels import fastest_kernels
from bench.harness.machine import cpu_name, load_average
from bench.harness.rows import Row, compare, equal_tokens
from bench.harness.selection import choose, unknown
from bench.harness.tables.family_table import Used, print_report
from bench.harness.tables.table import times

PEERS = (CTRANSLATE2, TRANSFORMERS)
PRECISIONS = ("fp32", "int8")
SOURCE_TOKENS = 32  # of each source, its end included, and of each prompt
_FIRST_WORD = 4  # ids below are special in some family
_PAUSE_S = 0.3  # between two runs: OpenMP's threads spin for 0.2 s after their last work
_WARM_UP_TOKENS = 2
_TUNED_WITH = 4  # the search for settings has this part of the new tokens
_SEED = 5

Key = tuple[str, str]  # an engine: its name, its precision


@dataclass(frozen=True, slots=True)
class FamilyWork:
    """A family, and the engines that run it beside ours."""

    name: str
    peers: tuple[str, ...]
    more_peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What one engine did with a family."""

    runs: list[Run | generate_engine.Run]
    used: Used


WORKS = tuple(FamilyWork(name, PEERS if family.is_converted else (TRANSFORMERS,)) for name, family in FAMILIES.items())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.families", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="families and peers, with commas between them")
    parser.add_argument("--precision", choices=PRECISIONS, help="ours, and CTranslate2's; both without it")
    parser.add_argument("--beams", type=int, default=1, help="more than 1: translation models alone")
    parser.add_argument("--segments", type=int, default=64, help="sources of a translation model")
    parser.add_argument("--prompts", type=int, default=32, help="of a causal model")
    parser.add_argument("--new", type=int, default=32, help="tokens that each gets")
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--size", choices=SIZES, default=DISTILLED)
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    if odd := unknown(WORKS, PEERS, only):
        parser.error(f"--only: nothing is called {', '.join(odd)}")
    if wrong := [name for name in ("beams", "segments", "prompts", "new", "repeats") if getattr(options, name) < 1]:
        parser.error(f"--{wrong[0]}: the smallest is 1")
    works = list(choose(WORKS, PEERS, only, full=False))
    if options.beams > 1:
        works = [work for work in works if FAMILIES[work.name].is_seq2seq]
    precisions = [options.precision] if options.precision else PRECISIONS
    rows: list[Row] = []
    used: list[Used] = []
    load = load_average()
    with tempfile.TemporaryDirectory() as name:
        root = (options.work or Path(name)).absolute() / options.size
        for chosen in works:
            _say(chosen.name)
            count = options.segments if FAMILIES[chosen.name].is_seq2seq else options.prompts
            work = prepare(root, chosen.name, options.size, options.beams, count, options.new)
            measured = measure(chosen, work, precisions, options.repeats)
            wanted = reference(work, measured)
            found = list(compared(chosen, precisions, options.beams, measured, wanted))
            for row in found:  # a run that is cut short has these
                _say(f"  {row.work:24} {row.peer:18} {times(row.ratio)}, by processor time {times(row.cpu_ratio)}")
            rows += found
            used += [one.used for one in measured.values()]
    if options.json:
        print(json.dumps([row.as_json() for row in rows]))
    else:
        print_report(rows, used, cpu_name(), (load, load_average()))


def prepare(root: Path, name: str, size: str, beams: int, count: int, new_tokens: int) -> Work:
    """The checkpoint of a family, made if it is missing, and the sources or prompts: the same in every run."""
    family, folder = FAMILIES[name], root / name
    command = ["bench.checkpoints.families", name, "--size", size]
    checkpoint = made_once(folder / "checkpoint", lambda out: [*command, "--out", str(out)])
    config = family.config(size)
    ids = np.random.default_rng(_SEED).integers(_FIRST_WORD, config["vocab_size"], (count, SOURCE_TOKENS))
    if family.is_seq2seq:
        ids[:, -1] = config["eos_token_id"]
    return Work(checkpoint, folder, family.is_seq2seq, beams, ids.tolist(), new_tokens)


def measure(chosen: FamilyWork, work: Work, precisions: Sequence[str], repeats: int) -> dict[Key, Measured]:
    """Run all engines of a family in turns."""
    keys = [key for precision in precisions for key in engines_of(chosen, precision)]
    runs: dict[Key, list[Run | generate_engine.Run]] = {key: [] for key in keys}
    with ExitStack() as stack:
        engines: dict[Key, FamilyEngine] = {}
        for key in runs:
            _say(f"  {' '.join(key)}")
            engines[key] = stack.enter_context(opened(*key, work, _environment(key, work)))
            engines[key].run(work.sources, min(work.new_tokens, _WARM_UP_TOKENS))
            engines[key].tune(work.sources, -(-work.new_tokens // _TUNED_WITH))
        for number in range(repeats):
            _say(f"  round {number + 1} of {repeats}, load {load_average():.1f}")
            for key, engine in engines.items():
                time.sleep(_PAUSE_S)
                # Not counted: while the others ran, the system may have taken the weights out of memory.
                engine.run(work.sources, min(work.new_tokens, _WARM_UP_TOKENS))
                runs[key].append(engine.run(work.sources, work.new_tokens))
                _say(f"    {' '.join(key):24} {runs[key][-1].rate:10,.0f} tokens/s")
        return {
            key: Measured(runs[key], Used(chosen.name, *key, engine.configuration(), engine.peak_memory()))
            for key, engine in engines.items()
        }


def engines_of(chosen: FamilyWork, precision: str) -> list[Key]:
    """Ours and the peers; transformers runs in fp32 beside each of our precisions."""
    return [(OURS, precision), *((peer, "fp32" if peer == TRANSFORMERS else precision) for peer in chosen.peers)]


def reference(work: Work, measured: Mapping[Key, Measured]) -> list[Ids]:
    """The ids that transformers gives in fp32; it is run for this unless it was a peer."""
    key = (TRANSFORMERS, "fp32")
    if key in measured:
        return measured[key].runs[0].ids
    with opened(*key, work) as engine:
        return engine.run(work.sources, work.new_tokens).ids


def compared(
    chosen: FamilyWork,
    precisions: Sequence[str],
    beams: int,
    measured: Mapping[Key, Measured],
    wanted: Sequence[Ids],
) -> Iterator[Row]:
    """A row for each precision and peer."""
    for precision in precisions:
        ours, *peers = engines_of(chosen, precision)
        for theirs in peers:
            rates, cpu_rates = ([[getattr(run, rate) for run in measured[side].runs] for side in (ours, theirs)]
                                for rate in ("rate", "cpu_rate"))  # fmt: skip
            search = "greedy" if beams == 1 else f"beam{beams}"
            our_cpu_rate, their_cpu_rate = map(statistics.median, cpu_rates)
            yield replace(
                compare(f"{chosen.name}-{precision}-{search}", theirs[0], *rates),
                cpu_ratio=our_cpu_rate / their_cpu_rate,
                our_equal=equal_tokens(measured[ours].runs[0].ids, wanted),
                their_equal=equal_tokens(measured[theirs].runs[0].ids, wanted),
            )


def _environment(key: Key, work: Work) -> dict[str, str]:
    """The variables that choose CTranslate2's kernels: found with the first family of each kind."""
    name, precision = key
    if name != CTRANSLATE2:
        return {}

    def rate(environment: Mapping[str, str]) -> float:
        with opened(*key, work, environment) as engine:
            engine.run(work.sources, min(work.new_tokens, _WARM_UP_TOKENS))
            return engine.run(work.sources, work.new_tokens).cpu_rate

    kind = "seq2seq" if work.is_seq2seq else "causal"
    return fastest_kernels(work.folder.parent / f"ctranslate2-{kind}-{precision}-kernels.json", rate, _say)


def _say(line: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
