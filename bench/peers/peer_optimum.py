"""Optimum on onnxruntime: the merged decoder with its cache, or a decoder without one."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.checkpoints.folders import made_once
from bench.peers.peer_transformers import fastest_batch_size, generate
from jobs.system.process import available_cores


@dataclass(slots=True)
class Model:
    network: Any
    has_cache: bool
    batch_size: int
    pad_id: int
    eos_id: int


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Export the checkpoint once, and open it. `precision` is `fp32`, or `fp32-no-cache`."""
    import onnxruntime
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    has_cache = precision == "fp32"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_cores()
    options.log_severity_level = 3
    network = ORTModelForSeq2SeqLM.from_pretrained(
        exported(checkpoint, folder, "merged" if has_cache else "none"),
        use_cache=has_cache,
        use_merged=has_cache,
        session_options=options,
    )
    config = json.loads((checkpoint / "generation_config.json").read_text(encoding="utf-8"))
    return Model(network, has_cache, 32, config["pad_token_id"], config["eos_token_id"])


def exported(checkpoint: Path, folder: Path, layout: str) -> Path:
    """The checkpoint in one of the layouts of `bench.checkpoints.models`, as Optimum exports it."""
    return made_once(
        folder / f"optimum-{layout}", lambda out: ["bench.checkpoints.export", str(checkpoint), str(out), layout]
    )


def run(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """Translate in batches of similar lengths, longest first."""
    return generate(model, segments, beams=beams, forced_length=forced_length)


def tune(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> None:
    """Choose the fastest batch size; without a cache, where each trial takes long, keep the default."""
    if model.has_cache:
        model.batch_size = fastest_batch_size(run, model, segments, beams=beams, forced_length=forced_length)


def configuration(model: Model, *, beams: int) -> str:
    layout = "merged decoder with its cache" if model.has_cache else "no cache"
    return (
        f"Optimum {version('optimum')} (optimum-onnx {version('optimum-onnx')}), onnxruntime {version('onnxruntime')}, "
        f"{layout}, {available_cores()} threads, batches of {model.batch_size}"
    )
