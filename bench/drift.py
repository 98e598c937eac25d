"""What int8 changes in models whose weights were trained, beside other engines in few bits.

    python -m bench.drift [--only smollm2,gemma3,minilm,demo] [--work DIR] [--json]

Everything is compared with kvjobs' own fp32. Of models with published weights, on the same texts
(`bench.checkpoints.published_texts`): the perplexity with the standard error of its change, the log-probability of each
token, and 40 greedy texts of 24 tokens; of the cross-encoder, the scores of 100 queries with 5 candidates each. Of the
bundled translation model, on 2,000 sentences of unseen bulletins: the same of the greedy translations in fp32, and each
engine's own. The others get the same weights, and stand beside it where they are installed: transformers in bf16 and
CTranslate2 in int8 (extra `bench`), llama.cpp in Q8_0 and Q4_K_M (extra `gguf`). Nothing is timed.

Needs the packages of bench/checkpoints/published.txt, but for `demo`.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.checkpoints.folders import made_once
from bench.checkpoints.published import GGUF_NAMES, NAMES
from bench.checkpoints.published_texts import published_texts
from bench.harness.causal_texts import read_texts, sequences_of
from bench.harness.machine import cpu_name
from bench.harness.segments import bulletin_segments
from bench.harness.text_drift import Read, TextDrift, text_drift
from bench.harness.translated_texts import read_translations, translate
from bench.peers.reads import ctranslate2_texts, ctranslate2_translations, transformers_texts
from jobs.system.requirements import is_installed
from worker.engine.cross_encoder.model import CrossEncoder, PairIds, score_all
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.models.drift import RelevanceDrift

_DEMO = "demo"
_NAMES = (*NAMES, _DEMO)
_TEXTS = {"smollm2": 75, "gemma3": 75, "minilm": 50, _DEMO: 2_000}  # texts; sentences
_OURS = ("fp32", "int8")
_QUERIES, _CANDIDATES, _QUERY_WORDS = 100, 5, 8
_LLAMACPP = ("q8_0", "q4_k_m")
_CTRANSLATE2 = "ctranslate2 int8"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drift", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(_NAMES), help=f"of {', '.join(_NAMES)}")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if not {*names} <= {*_NAMES}:
        parser.error(f"--only: of {', '.join(_NAMES)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).absolute()
        drifts = {name: _drifts(name, work / name) for name in names if name in (*GGUF_NAMES, _DEMO)}
        orders = {name: _orders(name, work / name) for name in names if name not in drifts}
    if options.json:
        print(json.dumps(_listed(drifts, orders)))
        return
    print(cpu_name())
    if drifts:
        print(f"{'model':8} {'engine':17} {'perplexity':>10} {'change':>9} {'error':>6} {'mean':>7} {'worst':>7} "
              f"{'equal':>9}")  # fmt: skip
    for name, engine, row in _rows(drifts):
        equal = f"{row.equal}/{row.texts}"
        print(f"{name:8} {engine:17} {row.perplexity:10.4f} {row.change:+8.3f}% {row.standard_error:5.2f}% "
              f"{row.mean:7.5f} {row.worst:7.3f} {equal:>9}")  # fmt: skip
    for name, found in orders.items():
        print(f"{name:8} int8: scores change by {found.mean:.4f} of their standard deviation, by {found.worst:.3f} at "
              f"most; {found.num_reordered} of {found.num_queries} orders change")  # fmt: skip


def _listed(drifts: dict[str, dict[str, TextDrift]], orders: dict[str, RelevanceDrift]) -> dict[str, Any]:
    causal = [{"model": name, "engine": engine, **asdict(row)} for name, engine, row in _rows(drifts)]
    relevance = [{"model": name, "engine": "int8", **asdict(found)} for name, found in orders.items()]
    return {"processor": cpu_name(), "rows": causal + relevance}


def _drifts(name: str, work: Path) -> dict[str, TextDrift]:
    """By engine, the reference first."""
    reads = (_translations if name == _DEMO else _texts)(name, work)
    return {engine: text_drift(read, reads["fp32"]) for engine, read in reads.items()}


def _texts(name: str, work: Path) -> dict[str, Read]:
    folders = {precision: _ours(name, work, precision) for precision in _OURS}
    sequences = sequences_of(folders["fp32"], published_texts(_TEXTS[name]))
    reads = {precision: read_texts(folder, sequences) for precision, folder in folders.items()}
    if is_installed("ctranslate2"):
        checkpoint = _checkpoint(name, work)
        reads["transformers bf16"] = transformers_texts(checkpoint, work, "bf16", sequences)
        reads[_CTRANSLATE2] = ctranslate2_texts(checkpoint, work, "int8", sequences)
    if is_installed("llama_cpp"):
        for kind in _LLAMACPP:
            reads[f"llama.cpp {kind}"] = read_texts(_requantized(name, work, kind), sequences)
    return reads


def _translations(name: str, work: Path) -> dict[str, Read]:
    checkpoint = _checkpoint(name, work)
    folders = {precision: _ours(name, work, precision) for precision in _OURS}
    sources = bulletin_segments(checkpoint, _TEXTS[name])
    targets = translate(folders["fp32"], sources)
    reads = {precision: read_translations(folder, sources, targets) for precision, folder in folders.items()}
    if is_installed("ctranslate2"):
        reads[_CTRANSLATE2] = ctranslate2_translations(checkpoint, work, "int8", sources, targets)
    return reads


def _orders(name: str, work: Path) -> RelevanceDrift:
    texts = published_texts(_TEXTS[name])
    exact, quantized = (_score_queries(_ours(name, work, precision), texts) for precision in _OURS)
    return RelevanceDrift.between(quantized, exact)


def _score_queries(folder: Path, texts: Sequence[str]) -> list[list[float]]:
    """The logits of the model in `folder`: of each query, of its candidates.

    A query is a piece of a text; its candidates are that text and those behind it.
    """
    model = CrossEncoder.open(folder)
    reader = open_pair_reader(folder, model)
    pairs = []
    for place in range(_QUERIES):
        words = texts[place % len(texts)].split()
        start = place // len(texts) * _QUERY_WORDS
        query = reader.tokenizer.encode(" ".join(words[start : start + _QUERY_WORDS]))
        for other in range(_CANDIDATES):
            document = reader.tokenizer.encode(texts[(place + other) % len(texts)])
            joined = reader.tokenizer.join(query, document, reader.max_length)
            pairs.append(PairIds(joined.ids, joined.types))
    logits = score_all(model.new_scorer(), pairs, RunContext())
    return [logits[start : start + _CANDIDATES] for start in range(0, len(logits), _CANDIDATES)]


def _ours(name: str, work: Path, precision: str) -> Path:
    checkpoint = _checkpoint(name, work)
    return made_once(work / precision, lambda out: ["bench.added", str(checkpoint), str(out), precision])


def _checkpoint(name: str, work: Path) -> Path:
    maker = ["bench.checkpoints.demo_checkpoint", "--out"] if name == _DEMO else ["bench.checkpoints.published", name]
    return made_once(work / "checkpoint", lambda out: [*maker, str(out)])


def _requantized(name: str, work: Path, kind: str) -> Path:
    return made_once(work / f"llamacpp-{kind}", lambda out: ["bench.peers.requantized_gguf", name, str(out), kind])


def _rows(drifts: dict[str, dict[str, TextDrift]]) -> Iterator[tuple[str, str, TextDrift]]:
    for name, found in drifts.items():
        for engine, row in found.items():
            yield name, engine, row


if __name__ == "__main__":
    main()
