"""transformers on torch, as its perplexity recipe does it: batches in the order given, padded to their longest."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.system.process import available_cores

_BATCH_SIZES = (1, 2, 4)  # tried where lengths are equal
_MIXED_BATCH = 8  # where they are not


@dataclass(slots=True)
class Model:
    network: Any
    precision: str
    batch_size: int


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Load the checkpoint; `folder` is not used."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(available_cores())
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision.removesuffix("-alone")]
    network = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype).eval()
    return Model(network, precision, 1)


def tune(model: Model, sequences: list[list[int]]) -> None:
    """Equal lengths: the fastest batch size. Mixed lengths: a padded batch, unless each is to be read alone."""
    import time

    if model.precision.endswith("-alone"):
        return
    if len({len(ids) for ids in sequences}) > 1:
        model.batch_size = _MIXED_BATCH
        return
    rates = {}
    score(model, sequences[: max(_BATCH_SIZES)])
    for size in _BATCH_SIZES:
        model.batch_size = size
        started = time.perf_counter()
        score(model, sequences[: max(_BATCH_SIZES)])
        rates[size] = 1 / (time.perf_counter() - started)
    model.batch_size = max(rates, key=rates.__getitem__)


def score(model: Model, sequences: list[list[int]]) -> list[list[float]]:
    """log p of every token but the first."""
    import torch

    found = []
    with torch.inference_mode():
        for start in range(0, len(sequences), model.batch_size):
            batch = sequences[start : start + model.batch_size]
            longest = max(map(len, batch))
            ids = torch.tensor([one + [0] * (longest - len(one)) for one in batch])
            mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in batch])
            logits = model.network(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
            targets = ids[:, 1:]
            for row, one in enumerate(batch):  # row by row: the whole batch in float32 would be twice the memory
                log_probs = -torch.nn.functional.cross_entropy(
                    logits[row, : len(one) - 1].float(), targets[row, : len(one) - 1], reduction="none"
                )
                found.append(log_probs.tolist())
    return found


def configuration(model: Model) -> str:
    import torch
    import transformers

    return (
        f"transformers {transformers.__version__}, torch {torch.__version__} {model.precision}, "
        f"{torch.get_num_threads()} threads, batches of {model.batch_size}"
    )
