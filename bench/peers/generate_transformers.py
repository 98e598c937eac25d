"""transformers on torch: `generate` over batches of prompts of similar length, padded on the left."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.fastest import fastest
from jobs.system.process import available_cores

_BATCH_SIZES = (8, 16, 32)


@dataclass(slots=True)
class Model:
    network: Any
    precision: str
    batch_size: int = max(_BATCH_SIZES)


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Load the checkpoint; `folder` is not used."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    torch.set_num_threads(available_cores())
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    network = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype).eval()
    network.generation_config = GenerationConfig(pad_token_id=0)  # without an end of the text
    return Model(network, precision)


def tune(model: Model, prompts: list[list[int]], new_tokens: int) -> None:
    """The fastest batch size."""

    def run(size: int) -> None:
        model.batch_size = size
        generate(model, prompts, new_tokens)

    sizes = [size for size in _BATCH_SIZES if size < len(prompts)] + [len(prompts)]
    model.batch_size = fastest([size for size in sizes if size <= max(_BATCH_SIZES)], run)


def generate(model: Model, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """What each prompt is continued with. Batches are of similar lengths: the least padding."""
    import torch

    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    found: list[list[int]] = [[]] * len(prompts)
    for start in range(0, len(order), model.batch_size):
        some = order[start : start + model.batch_size]
        longest = len(prompts[some[0]])
        padding = [longest - len(prompts[index]) for index in some]
        ids = torch.tensor([[0] * pads + prompts[index] for pads, index in zip(padding, some, strict=True)])
        mask = torch.tensor([[0] * pads + [1] * (longest - pads) for pads in padding])
        with torch.inference_mode():
            given = model.network.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=new_tokens)
        for index, row in zip(some, given[:, longest:].tolist(), strict=True):
            found[index] = row
    return found


def configuration(model: Model) -> str:
    import torch
    import transformers

    return (
        f"transformers {transformers.__version__}, torch {torch.__version__} {model.precision}, "
        f"{torch.get_num_threads()} threads, batches of {model.batch_size}"
    )
