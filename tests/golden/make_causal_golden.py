"""Record the log-probability of every token in transformers, so that the tests need no torch.

    python tests/golden/make_causal_golden.py

Needs the extra `train`. Run from the top of the checkout. The checkpoints are random and tiny and are not kept: the
tests write them again, from the same seed. Each sequence goes through transformers alone.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.causal_checkpoints import write_causal_checkpoint  # noqa: E402
from tests.causal_families import FAMILIES, write_family  # noqa: E402

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"family": "llama", "seed": 1},
    "llama, llama3 positions": {
        "family": "llama",
        "seed": 2,
        "tied": False,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "llama, linear positions": {
        "family": "llama", "seed": 3, "rope_scaling": {"rope_type": "linear", "factor": 4.0}
    },
    "mistral, window": {"family": "mistral", "seed": 4, "sliding_window": 9},
    "qwen2": {"family": "qwen2", "seed": 5},
    "qwen2, yarn positions": {
        "family": "qwen2",
        "seed": 6,
        "head_size": 32,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    },
    "qwen3": {"family": "qwen3", "seed": 7, "head_size": 24},
}  # fmt: skip
LENGTHS = (2, 7, 33, 90)


FAMILY_LENGTHS = (2, 40)


def main() -> None:
    cases = []
    for name, arguments in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            model = open_model(write_causal_checkpoint(Path(folder), **arguments))
        cases.append({"name": name, "arguments": arguments} | recorded(model, arguments["seed"], LENGTHS))
    write(HERE / "causal.json", cases)
    write(HERE / "causal_families.json", [family_case(name) for name in FAMILIES])


def family_case(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        # The eager attention of transformers adds Falcon's ALiBi twice.
        model = open_model(write_family(Path(folder), name), "sdpa" if name == "falcon, alibi" else "eager")
    return {"name": name} | recorded(model, 0, FAMILY_LENGTHS)


def open_model(checkpoint: Path, attention: str = "eager") -> Any:
    return AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation=attention).eval()


def recorded(model: Any, seed: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Random sequences of these lengths, and the log-probabilities of their tokens."""
    rng = np.random.default_rng(seed)
    sequences = [[int(i) for i in rng.integers(0, 300, length)] for length in lengths]
    return {"sequences": sequences, "log_probs": [log_probs_of(model, ids) for ids in sequences]}


def write(file: Path, cases: list[dict[str, Any]]) -> None:
    versions = {name: version(name) for name in ("torch", "transformers", "numpy")}
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"versions": {json.dumps(versions)},\n"cases": [\n{lines}]}}\n'
    file.write_text(text, encoding="utf-8")


def log_probs_of(model: Any, ids: list[int]) -> list[float]:
    """Log-probabilities (S - 1,) of all tokens except the first."""
    with torch.no_grad():
        every = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1).numpy()
    return [round(float(every[place, token]), 5) for place, token in enumerate(ids[1:])]


if __name__ == "__main__":
    main()
