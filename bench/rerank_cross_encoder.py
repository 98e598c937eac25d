"""Reranking with a cross-encoder beside sentence-transformers, on torch and on its ONNX backend.

    python -m bench.rerank_cross_encoder [--shape minilm-l6] [--queries 4] [--candidates 100] [--repeats 3]
                                         [--only kvjobs-fp32,torch] [--json] [--work DIR]

Queries of 4 to 12 words with candidates of mixed lengths (log-normal, median 70 words, as of web passages; those that
do not fit are cut), on a random checkpoint of a published shape. Every engine gets the texts, tokenizes them and gives
a score for each pair, with one thread: kvjobs as a lane of a worker does, the others by `CrossEncoder.predict` with the
batch size of 8, 16, 32 and 64 that is fastest on a part of the pairs. They run in turns (A B C A B C), each in a
process of its own; the median counts. Scores are compared with those of torch.

Needs the extra `bench` and sentence-transformers; its ONNX backend also optimum-onnx.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.checkpoints.cross_encoders import CROSS_ENCODER_SHAPES, words
from bench.checkpoints.folders import made_once
from bench.harness.machine import cpu_name, load_average

Pair = tuple[str, str]
Score = Callable[[Sequence[Pair]], list[float]]

ENGINES = ("kvjobs-fp32", "kvjobs-int8", "torch", "onnx")
BATCH_SIZES = (8, 16, 32, 64)
_OURS = "kvjobs-"
_TRIED = 64  # pairs on which a batch size is tried


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    if options.serve:
        _serve(options)
        return
    with tempfile.TemporaryDirectory() as name:
        work = (options.work or Path(name)).absolute()
        names = options.only.split(",")
        _make(work / options.shape, options.shape, names)
        engines = [_Engine(one, options, work) for one in names]
        for engine in engines:
            engine.warm_up()
        for _ in range(options.repeats):
            for engine in engines:
                engine.run()
        rows = _rows(engines, options)
        for engine in engines:
            engine.close()
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{options.shape}: {options.queries} queries of {options.candidates} candidates, one thread:")
    for row in rows:
        print(
            f"  {row['engine']:12} {row['pairs_per_s']:8.2f} pairs/s  {row['ratio']:6.2f} x torch "
            f"({row['cpu_ratio']:.2f} x by CPU time)  score off by {row['worst']:.1e} at most{row['setting']}"
        )
    print(f"{cpu_name()}; load average {load_average():.2f}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rerank_cross_encoder", description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=CROSS_ENCODER_SHAPES, default="minilm-l6")
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)  # a process of one engine
    return parser.parse_args(arguments)


def _make(work: Path, shape: str, names: Sequence[str]) -> None:
    """The checkpoint, and kvjobs' models of it, before any engine looks for them."""
    checkpoint = made_once(
        work / "checkpoint", lambda out: ["bench.checkpoints.cross_encoders", shape, "--out", str(out)]
    )
    for precision in (name.removeprefix(_OURS) for name in names if name.startswith(_OURS)):
        made_once(
            work / f"{_OURS}{precision}",
            lambda out, precision=precision: ["bench.added", str(checkpoint), str(out), precision],
        )


def _rows(engines: Sequence["_Engine"], options: argparse.Namespace) -> list[dict[str, Any]]:
    exact = next((one for one in engines if one.name == "torch"), engines[0])
    return [
        {
            "engine": one.name,
            "shape": options.shape,
            "pairs_per_s": round(options.queries * options.candidates / one.seconds, 2),
            "ratio": round(exact.seconds / one.seconds, 3),
            "cpu_ratio": round(exact.cpu_s / one.cpu_s, 3),
            "worst": float(np.abs(np.subtract(one.scores, exact.scores)).max()),
            "setting": one.setting,
        }
        for one in engines
    ]


class _Engine:
    """A process of one engine, which scores all pairs when it is asked to."""

    def __init__(self, name: str, options: argparse.Namespace, work: Path) -> None:
        self.name = name
        self.scores: list[float] = []
        self.setting = ""
        self._times: list[float] = []
        self._cpu_times: list[float] = []
        command = [sys.executable, "-m", "bench.rerank_cross_encoder", "--serve", name, "--work", str(work)]
        command += ["--shape", options.shape, "--queries", str(options.queries)]
        command += ["--candidates", str(options.candidates)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def seconds(self) -> float:
        """The median of all runs."""
        return statistics.median(self._times)

    @property
    def cpu_s(self) -> float:
        """The median of processor time."""
        return statistics.median(self._cpu_times)

    def warm_up(self) -> None:
        """Wait until the model is open and a batch size is chosen."""
        self.setting = self._ask("open")["setting"]

    def run(self) -> None:
        """Score all pairs once."""
        answer = self._ask("run")
        self._times.append(answer["seconds"])
        self._cpu_times.append(answer["cpu_s"])
        self.scores = answer["scores"]

    def close(self) -> None:
        self._process.communicate("", timeout=60)

    def _ask(self, what: str) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        print(what, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _serve(options: argparse.Namespace) -> None:
    """Answer one line of JSON for each line of the parent; what libraries print goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    pairs = _draw(options)
    score, setting = _open(options.serve, options.work / options.shape, pairs)
    for line in sys.stdin:
        if line.strip() == "open":
            print(json.dumps({"setting": setting}), file=out, flush=True)
            continue
        started, cpu_started = time.perf_counter(), time.process_time()
        scores = score(pairs)
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "scores": scores}), file=out, flush=True)


def _open(engine: str, work: Path, pairs: Sequence[Pair]) -> tuple[Score, str]:
    if engine.startswith(_OURS):
        score = _kvjobs(work / engine)
        score(pairs[:_TRIED])
        return score, ""
    score, batch_size = _fastest(_sentence_transformers(work / "checkpoint", engine), pairs[:_TRIED])
    return score, f"; batches of {batch_size}"


def _kvjobs(folder: Path) -> Score:
    from jobs.outcome import Ranking
    from jobs.tasks.rerank import Method, RerankOptions
    from worker.engine.cross_encoder.model import CrossEncoder
    from worker.engine.cross_encoder.pair_reader import open_pair_reader
    from worker.engine.runtime.run_context import RunContext
    from worker.engine.tasks.rerank.pair_reranking import PairReranker

    model = CrossEncoder.open(folder)
    reranker = PairReranker(model, open_pair_reader(folder, model))

    def score(pairs: Sequence[Pair]) -> list[float]:
        by_query: dict[str, list[tuple[int, str]]] = {}
        for place, (query, document) in enumerate(pairs):
            by_query.setdefault(query, []).append((place, document))
        payloads = [
            json.dumps({"query": query, "candidates": [{"id": str(place), "text": text} for place, text in found]})
            for query, found in by_query.items()
        ]
        options = RerankOptions(method=Method.CROSS_ENCODER)
        outcomes = reranker.rerank(payloads, options, RunContext()).outcomes
        scores = [0.0] * len(pairs)
        for outcome in outcomes:
            assert isinstance(outcome, Ranking)
            for one in outcome.candidates:
                scores[int(one.id)] = one.score if one.score is not None else float("nan")
        return scores

    return score


def _sentence_transformers(checkpoint: Path, engine: str) -> Callable[[int], Score]:
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(1)
    if engine == "torch":
        model = CrossEncoder(str(checkpoint), device="cpu")
    else:
        import onnxruntime

        threads = onnxruntime.SessionOptions()
        threads.intra_op_num_threads = 1
        kwargs = {"provider": "CPUExecutionProvider", "session_options": threads, "export": True}
        model = CrossEncoder(str(checkpoint), device="cpu", backend="onnx", model_kwargs=kwargs)

    def with_batches(size: int) -> Score:
        return lambda pairs: model.predict(list(pairs), batch_size=size, show_progress_bar=False).tolist()

    return with_batches


def _fastest(with_batches: Callable[[int], Score], pairs: Sequence[Pair]) -> tuple[Score, int]:
    """The score function with the batch size that takes the least processor time, which other work disturbs less."""
    seconds = {}
    with_batches(BATCH_SIZES[0])(pairs[:8])
    for size in BATCH_SIZES:
        started = time.process_time()
        with_batches(size)(pairs)
        seconds[size] = time.process_time() - started
    best = min(seconds, key=lambda size: seconds[size])
    return with_batches(best), best


def _draw(options: argparse.Namespace) -> list[Pair]:
    """Queries with candidates, the same ones every time, in an order in which lengths are mixed."""
    rng, vocabulary = np.random.default_rng(7), words(CROSS_ENCODER_SHAPES[options.shape])

    def text(length: int) -> str:
        return " ".join(vocabulary[place] for place in rng.integers(0, len(vocabulary), length))

    queries = [text(int(rng.integers(4, 13))) for _ in range(options.queries)]
    lengths = np.exp(rng.normal(np.log(70), 0.5, (options.queries, options.candidates))).astype(int) + 1
    return [(query, text(int(length))) for query, own in zip(queries, lengths, strict=True) for length in own]


if __name__ == "__main__":
    main()
