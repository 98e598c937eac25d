"""GGUF files in llama.cpp beside kvjobs' own graphs: scoring and reranking, one lane of one thread, in turns.

    python -m bench.gguf FOLDER [FOLDER ...] [--repeats 3] [--tokens 2000] [--prefix 256] [--suffix 32]
                         [--candidates 40] [--json]

Each FOLDER is a model with the same vocabulary: graphs, or a GGUF file that `models add --keep-gguf` made. Scoring:
sequences of 10 to 500 tokens. Reranking: candidates behind one prefix, which is computed once, and once for each. Rates
are by the CPU time of the process, the best of the rounds, so that other work on the machine matters little. The first
folder is the one that the others' log-probabilities are compared with.

Needs the extra `gguf`.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.harness.machine import cpu_name, load_average
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, LogProbs, Reader, read_all
from worker.engine.runtime.run_context import RunContext

_SHORTEST, _LONGEST = 10, 500  # tokens
Found = list[list[LogProbs]]


@dataclass(slots=True)
class Measured:
    """A model's rates, and how far it is from the first model."""

    name: str
    score: float = 0.0  # tokens a second of CPU time
    shared: float = 0.0  # candidates a second, the prefix computed once
    alone: float = 0.0  # candidates a second, the prefix computed for each
    worst: float = 0.0  # nats, of a single token
    mean: float = 0.0  # nats a token


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gguf", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=2_000, help="tokens to score, about")
    parser.add_argument("--prefix", type=int, default=256, help="tokens that all candidates share")
    parser.add_argument("--suffix", type=int, default=32, help="tokens of each candidate behind the prefix")
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    models = {folder.name: open_causal_model(folder) for folder in options.folders}
    vocab_size = min(model.vocab_size for model in models.values())
    longest = min(model.max_positions for model in models.values())
    rng = np.random.default_rng(5)

    def ids(count: int) -> list[int]:
        return rng.integers(1, vocab_size, count).tolist()

    count = max(2, 2 * options.tokens // (_SHORTEST + _LONGEST))
    lengths = rng.permutation(np.linspace(_SHORTEST, min(_LONGEST, longest), count).astype(int))
    sequences = [Group((), (ids(int(length)),)) for length in lengths]
    prefix, suffixes = ids(options.prefix), [ids(options.suffix) for _ in range(options.candidates)]
    works = {
        "score": (sequences, int(lengths.sum())),
        "shared": ([Group(prefix, suffixes)], len(suffixes)),
        "alone": ([Group(prefix, [suffix]) for suffix in suffixes], len(suffixes)),
    }
    readers = {name: model.new_reader() for name, model in models.items()}
    rows = {name: Measured(name) for name in models}
    found: dict[str, Found] = {}
    for reader in readers.values():
        _read(reader, sequences[:1])
    for _ in range(options.repeats):
        for name, reader in readers.items():
            for work, (groups, units) in works.items():
                seconds, log_probs = _read(reader, groups)
                setattr(rows[name], work, max(getattr(rows[name], work), units / seconds))
                if work == "score":
                    found[name] = log_probs
    reference = _flat(found[options.folders[0].name])
    for name, row in rows.items():
        gaps = np.abs(_flat(found[name]) - reference)
        row.worst, row.mean = float(gaps.max()), float(gaps.mean())
    if options.json:
        print(json.dumps([asdict(row) for row in rows.values()]))
        return
    print(f"{cpu_name()}, load {load_average():.1f}; one thread; a prefix of {options.prefix} tokens, "
          f"{options.candidates} candidates of {options.suffix}")  # fmt: skip
    print(f"{'model':24} {'tokens/s':>9} {'shared/s':>9} {'alone/s':>9} {'worst':>8} {'mean':>8}")
    for row in rows.values():
        print(f"{row.name:24} {row.score:9,.0f} {row.shared:9,.1f} {row.alone:9,.1f} {row.worst:8.1e} {row.mean:8.1e}")


def _read(reader: Reader, groups: Sequence[Group]) -> tuple[float, Found]:
    """Seconds of CPU time, and the log-probabilities."""
    started = time.process_time()
    found = read_all(reader, groups, RunContext())
    return time.process_time() - started, found


def _flat(found: Found) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.concatenate([each for group in found for each in group]).astype(np.float64)


if __name__ == "__main__":
    main()
