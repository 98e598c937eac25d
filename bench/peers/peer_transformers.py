"""transformers' `generate` on torch, all cores in one batch."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.system.process import available_cores

_BATCH_SIZES = (16, 32, 64)


@dataclass(slots=True)
class Model:
    network: Any
    precision: str
    batch_size: int
    pad_id: int
    eos_id: int


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Load the checkpoint; `folder` is not used."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(available_cores())
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    network = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, dtype=dtype).eval()
    config = json.loads((checkpoint / "generation_config.json").read_text(encoding="utf-8"))
    return Model(network, precision, 32, config["pad_token_id"], config["eos_token_id"])


def run(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """Translate in batches of similar lengths, longest first."""
    import torch

    with torch.inference_mode():
        return generate(model, segments, beams=beams, forced_length=forced_length)


def generate(model: Any, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """The part shared by transformers and Optimum; `model` has network, batch_size, pad_id and eos_id."""
    import torch

    settings: dict[str, Any] = {"num_beams": beams}
    if beams == 1:
        settings["renormalize_logits"] = False  # changes no id of a greedy search, and costs time
    if forced_length:
        settings |= {"min_new_tokens": forced_length, "max_new_tokens": forced_length}
        model.network.generation_config.forced_eos_token_id = None
    order = sorted(range(len(segments)), key=lambda index: -len(segments[index]))
    found: list[list[int]] = [[]] * len(segments)
    for start in range(0, len(order), model.batch_size):
        rows = order[start : start + model.batch_size]
        longest = len(segments[rows[0]])
        ids = torch.tensor([segments[row] + [model.pad_id] * (longest - len(segments[row])) for row in rows])
        mask = torch.tensor([[1] * len(segments[row]) + [0] * (longest - len(segments[row])) for row in rows])
        output = model.network.generate(input_ids=ids, attention_mask=mask, **settings)
        for row, generated in zip(rows, output[:, 1:].tolist(), strict=True):
            found[row] = generated[: generated.index(model.eos_id)] if model.eos_id in generated else generated
    return found


def tune(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> None:
    """Choose the fastest batch size."""
    model.batch_size = fastest_batch_size(run, model, segments, beams=beams, forced_length=forced_length)


def fastest_batch_size(
    run: Any, model: Any, segments: list[list[int]], *, beams: int, forced_length: int | None
) -> int:
    """The fastest of a few sizes, each tried on one batch; fewer segments for a beam search, which has more rows."""
    rates = {}
    for size in _BATCH_SIZES:
        model.batch_size = max(1, size // beams)
        some = segments[: model.batch_size]
        started = time.perf_counter()
        run(model, some, beams=beams, forced_length=forced_length)
        rates[model.batch_size] = len(some) / (time.perf_counter() - started)
    return max(rates, key=rates.__getitem__)


def configuration(model: Model, *, beams: int) -> str:
    import torch
    import transformers

    return (
        f"transformers {transformers.__version__}, torch {torch.__version__} {model.precision}, "
        f"{torch.get_num_threads()} threads, batches of {model.batch_size}"
    )
