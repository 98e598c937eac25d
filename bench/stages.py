"""A split model beside the whole one: equal answers, memory of each process under a limit, seconds and bytes by stage.

    python -m bench.stages [--shape demo-lm|qwen-shaped|qwen-quarter|qwen-tiny] [--stages 2,3,all] [--only memory]
                           [--precision fp32,int8] [--rounds 5] [--json] [--work DIR]

Three parts, `--only` chooses among them:

- `equality`: log-probabilities and greedy continuations of every split, its stages in one process and each in its own,
  beside those of the whole model.
- `memory` (the first precision, the first number of stages): what the whole model allocates in one process; the
  smallest limit, in twentieths of that, under which the separate stages run; and what the whole model does under it.
- `seconds` (the first precision): the body's calls, by stage; what of them is transport. Whole, split and separate take
  turns.

`demo-lm` is the bundled model; the others have random weights. What was built stays in `--work` (qwen-shaped: 2 GB for
the checkpoint, for each model, and for each split of it, in fp32).
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES
from bench.checkpoints.folders import made_once
from bench.harness.machine import cpu_name, load_average
from bench.harness.processes.own_process import in_own_process
from bench.harness.stages import stage_answers, stage_memory, stage_seconds
from bench.harness.stages.stage_answers import Questions
from bench.harness.stages.stage_folders import separate, split_once
from bench.harness.stages.stage_table import print_equality, print_memory, print_seconds
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.precision import Precision
from worker.model_tools.inspect.stages import describe_stages
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest

DEMO = "demo-lm"
SHAPES = (*CAUSAL_SHAPES, DEMO)
PARTS = ("equality", "memory", "seconds")
ALL = "all"  # stages: one for each layer
_TWENTIETHS = range(6, 20)  # of what the whole model allocates: the limits that are tried

Rows = list[dict[str, Any]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stages", description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default=DEMO)
    parser.add_argument("--stages", default=f"2,3,{ALL}", help="how many, with commas between them")
    parser.add_argument("--precision", default="fp32,int8", help="one or two, with a comma between them")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--rounds", type=int, default=5, help="of the seconds")
    parser.add_argument("--rows", type=int, default=8, help="prompts of a call, in the parts memory and seconds")
    parser.add_argument("--tokens", type=int, default=32, help="of each of these prompts, and steps behind them")
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    parts, precisions = options.only.split(","), options.precision.split(",")
    if odd := {*parts} - {*PARTS} | {*precisions} - {*map(str, (Precision.FP32, Precision.INT8))}:
        parser.error(f"nothing is called {', '.join(sorted(odd))}")
    load, rows = load_average(), Rows()
    with tempfile.TemporaryDirectory() as name:
        folder = (options.work or Path(name)).absolute() / options.shape
        models = {precision: _made(options.shape, folder, precision) for precision in precisions}
        first = models[precisions[0]]
        sizes = read_sizes(read_json(first / CONFIG))
        stages = _numbers(options.stages, sizes.layers)
        if "equality" in parts:
            rows += _shown(equality(models, stages, sizes), print_equality, options.json)
        if "memory" in parts:
            rows += _shown(memory(first, stages[0], sizes, options.rows, options.tokens), print_memory, options.json)
        if "seconds" in parts:
            work = stage_seconds.Work.draw(sizes.vocab_size, options.rows, options.tokens, options.tokens)
            rows += _shown(seconds(first, stages, work, options.rounds), print_seconds, options.json)
    if options.json:
        print(json.dumps(rows))
    else:
        print(f"{options.shape}; {cpu_name()}; load average {load:.2f} before, {load_average():.2f} after")


def equality(models: dict[str, Path], stages: Sequence[int], sizes: CausalSizes) -> Iterator[dict[str, Any]]:
    """A row for each split of each precision."""
    questions = Questions.draw(sizes.vocab_size, new_tokens=16)
    for precision, whole in models.items():
        _say(f"equality, {precision}: the whole model")
        wanted = in_own_process(stage_answers.answer, whole, questions)
        for number in stages:
            split = split_once(whole, number)
            for is_separate in (False, True):
                _say(f"equality, {precision}: {number} stages{', separate' * is_separate}")
                folder = separate(split) if is_separate else split
                found = in_own_process(stage_answers.answer, folder, questions)
                row = {"part": "equality", "precision": precision, "stages": number, "separate": is_separate}
                yield row | asdict(stage_answers.differences(found, wanted))


def memory(whole: Path, stages: int, sizes: CausalSizes, num_prompts: int, tokens: int) -> Iterator[dict[str, Any]]:
    """A row for each process of the whole model, and of the separate stages without a limit and under one."""
    prompts = stage_seconds.Work.draw(sizes.vocab_size, num_prompts, tokens, 1).prompts
    split = split_once(whole, stages)
    _say("memory: the whole model, and its stages")
    alone, free = stage_memory.use(whole, prompts), stage_memory.use(separate(split), prompts)
    needed = alone.processes[0].data
    static = {"process": {"weights_bytes": _weights_bytes(whole), "cache_bytes": _cache_bytes(split)}}
    yield from _memory_rows("whole", None, alone, alone, static)
    static = {"process": {}} | {
        f"stage {one.number}": {"weights_bytes": one.weights_bytes, "cache_bytes": one.cache_bytes}
        for one in describe_stages(split, Manifest.read(split))
    }
    yield from _memory_rows("separate", None, free, alone, static)
    least = max(process.data for process in free.processes)
    for share in _TWENTIETHS:
        limit = needed * share // 20
        if limit < least:
            continue  # it needed more than that
        _say(f"memory: a limit of {limit / 1e6:,.0f} MB")
        limited = stage_memory.use(separate(split, limit), prompts, limit)
        if limited.error is None:
            yield from _memory_rows("separate", limit, limited, alone, static)
            yield from _memory_rows("whole", limit, stage_memory.use(whole, prompts, limit), alone, {"process": {}})
            return


def seconds(whole: Path, stages: Sequence[int], work: stage_seconds.Work, rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each model and phase; the whole model is measured again with each split."""
    for number in stages:
        split = split_once(whole, number)
        _say(f"seconds: {number} stages")
        found = in_own_process(stage_seconds.measure, whole, split, separate(split), work, rounds)
        for name, phases in found.items():
            for phase, call in phases.items():
                base = found[stage_seconds.WHOLE][phase].seconds
                tokens = len(work.prompts) * (len(work.prompts[0]) if phase == "prefill" else 1)
                row = {"part": "seconds", "stages": number, "model": name, "phase": phase, "tokens": tokens}
                yield (
                    row
                    | asdict(call)
                    | {
                        "ratio": call.seconds / base,
                        "transport": call.transport if call.computing else None,
                    }
                )


def _memory_rows(
    model: str, limit: int | None, used: stage_memory.Use, wanted: stage_memory.Use, static: dict[str, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    row = {"part": "memory", "model": model, "limit": limit, "error": used.error}
    if used.error is not None:
        yield row
    for process in used.processes:
        yield row | asdict(process) | static[process.name] | {"is_equal": used.ids == wanted.ids}


def _weights_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.data"))


def _cache_bytes(split: Path) -> int:
    return sum(stage.cache_bytes for stage in describe_stages(split, Manifest.read(split)))


def _numbers(text: str, layers: int) -> list[int]:
    """The numbers of stages that a model of so many layers can have."""
    numbers = [layers if one == ALL else int(one) for one in text.split(",")]
    return list(dict.fromkeys(number for number in numbers if 2 <= number <= layers))


def _made(shape: str, folder: Path, precision: str) -> Path:
    maker = ["bench.checkpoints.lm_checkpoint"] if shape == DEMO else ["bench.checkpoints.causal_models", shape]
    checkpoint = made_once(folder / "checkpoint", lambda out: [*maker, "--out", str(out)])
    return made_once(folder / f"ours-{precision}", lambda out: ["bench.added", str(checkpoint), str(out), precision])


def _shown(rows: Iterator[dict[str, Any]], show: Callable[[Rows], None], as_json: bool) -> Rows:
    found = list(rows)
    if not as_json:
        show(found)
    return found


def _say(line: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
