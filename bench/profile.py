"""Where a decoding step and a call of the encoder go.

    python -m bench.profile (--model FOLDER | --shape opus-shaped) [--precision int8] [--beams 1] [--rows 64]
                            [--tokens 32] [--repeats 3] [--json] [--work DIR]

One lane of one thread translates `--rows` divided by `--beams` sentences of `--tokens` random tokens into as many,
three times: as it is, for the seconds of a step; with onnxruntime's profile of each graph, by operator and, of
products, by matrix: medians of each node, summed over the layers; and with Python's profile, by kind of code. Python's
share of a step is what the model's call leaves of it, divided among the kinds as that profile says.

Needs the extra `bench` for `--shape`.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.checkpoints.folders import made_once
from bench.checkpoints.shapes import SHAPES
from bench.harness.machine import cpu_name, load_average
from bench.harness.onnx_profile import GraphProfile, end_profile, profiled_sessions
from bench.harness.python_profile import MODEL, REST, SEARCH, SLOTS, seconds_by_kind
from bench.harness.segments import random_segments
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import decode_all

Rows = list[dict[str, Any]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path, help="a folder that `kvjobs models add` made")
    source.add_argument("--shape", choices=SHAPES, help="a random model")
    parser.add_argument("--precision", default="int8", choices=("fp32", "int8"), help="of --shape")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64, help="of a step: sentences times beams")
    parser.add_argument("--tokens", type=int, default=32, help="of each sentence, and of each translation")
    parser.add_argument("--repeats", type=int, default=3, help="translations of all sentences")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if not 1 <= options.beams <= options.rows:
        parser.error("--rows: at least as many as --beams, which is 1 or more")
    with tempfile.TemporaryDirectory() as name:
        folder = options.model or _made((options.work or Path(name)).absolute(), options.shape, options.precision)
        sentences = random_segments(folder, options.rows // options.beams, options.tokens)
        rows = list(measure(folder, sentences, options.beams, options.tokens, options.repeats, Path(name)))
    if options.json:
        print(json.dumps(rows))
    else:
        _print(rows)
        print(f"{cpu_name()}, one thread; load average {load_average():.2f}")


def measure(
    folder: Path, sentences: list[list[int]], beams: int, tokens: int, repeats: int, scratch: Path
) -> Iterator[dict[str, Any]]:
    """A row for each group of nodes of each graph, then one for each part of a step."""
    translate = _translation(folder, sentences, beams, tokens)
    translate()
    started = time.process_time()
    for _ in range(repeats):
        context = translate()
    seconds = (time.process_time() - started) / repeats
    steps = sum(timing.calls for timing in context.timings if timing.phase == "decode")
    with profiled_sessions(scratch) as sessions:
        profiled = _translation(folder, sentences, beams, tokens)
        for _ in range(repeats):
            profiled()
    for session in sessions:
        graph = end_profile(session)
        if graph is not None:
            yield from _graph_rows(_graph_name(session), graph)
    spent = seconds_by_kind(lambda: [translate() for _ in range(repeats)])
    model_ms = 1000 * spent.pop(MODEL) / repeats / steps
    python_ms, profiled_s = max(0.0, 1000 * seconds / steps - model_ms), sum(spent.values())
    yield {"part": "step", "kind": "graphs, the encoder's share included", "ms": round(model_ms, 3)}
    for kind in (SEARCH, SLOTS, REST):
        yield {"part": "step", "kind": kind, "ms": round(python_ms * spent[kind] / profiled_s, 3)}


def _translation(folder: Path, sentences: list[list[int]], beams: int, tokens: int) -> Callable[[], RunContext]:
    """A function that translates all sentences, with slots of its own; it returns the timings."""
    network = NativeSeq2Seq.open(folder)
    decoder = network.new_decoder()
    rules = replace(
        network.generation, num_beams=beams, min_new_tokens=tokens, max_new_tokens=tokens, forced_eos_id=None
    )

    def translate() -> RunContext:
        context = RunContext()
        decode_all(decoder, sentences, rules, context, batch_size=len(sentences))
        return context

    return translate


def _graph_name(session: Any) -> str:
    return "encoder call" if any(output.name == "cross" for output in session.get_outputs()) else "decoder step"


def _graph_rows(name: str, graph: GraphProfile) -> Iterator[dict[str, Any]]:
    yield {"part": name, "kind": "whole call", "calls": graph.calls, "ms": round(graph.ms, 3)}
    for group in graph.groups:
        row = asdict(group)
        yield {"part": name, "kind": "nodes", **row, "ms": round(group.ms, 4), "share": round(group.share, 4)}


def _made(folder: Path, shape: str, precision: str) -> Path:
    checkpoint = made_once(
        folder / shape / "checkpoint",
        lambda out: ["bench.checkpoints.models", shape, "--layout", "checkpoint", "--out", str(out)],
    )
    return made_once(
        folder / shape / f"profiled-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision]
    )


def _print(rows: Rows) -> None:
    console = Console(width=None if Console().is_terminal else 120)
    table = Table("part", "operator")
    table.add_column("matrix", overflow="fold")
    for head in ("nodes", "ms", "share"):
        table.add_column(head, justify="right")
    for row in rows:
        if row["kind"] == "nodes":
            table.add_row("", row["operator"], row["matrix"], str(row["nodes"]), f"{row['ms']:.3f}", _share(row))
        else:
            what = f"{row['calls']} calls" if "calls" in row else row["kind"]
            table.add_row(row["part"], what, "", "", f"{row['ms']:.3f}", "")
    console.print(table)


def _share(row: dict[str, Any]) -> str:
    return f"{100 * row['share']:.1f} %"


if __name__ == "__main__":
    main()
