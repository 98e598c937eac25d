"""Recover the Hugging Face checkpoint of a Llama or Qwen2 model from its native graphs.

    python -m bench.checkpoints.lm_checkpoint --out /tmp/demo-lm-checkpoint [--model worker/demo/lm]

The other engines in the benchmarks read checkpoints, and the package bundles only graphs.
Knows: how `worker.graphs.causal.graphs` names and packs tensors. Does not know: how to run one.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from jobs.errors import ModelError
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.file_names import BODY, HEAD
from worker.graphs.weights import WrittenWeights
from worker.models.file_names import CAUSAL_TOKENIZER, CAUSAL_TOKENIZER_EXTRAS, CONFIGURATION

DEMO = Path(__file__).parents[2] / "worker/demo/lm"

_FAMILIES = ("llama", "mistral", "qwen2")

Weights = dict[str, np.ndarray]


def recover(model: Path, out: Path) -> Weights:
    """Write the checkpoint of the folder `model` into `out`; returns its weights by their transformers names.

    Raises ModelError for a model that is not in float32, or whose heads were changed to fit the kernel.
    """
    sizes = read_sizes(json.loads((model / "config.json").read_text(encoding="utf-8")))
    body, head = (WrittenWeights.read(model / file) for file in (BODY, HEAD))
    if "layers.0.qkv.weight" not in body or body.map("embeddings", model).dtype != np.float32:
        raise ModelError(f"{model}: only a causal model in float32 can be recovered")
    if sizes.family not in _FAMILIES or sizes.head_size != sizes.own_head_size:
        raise ModelError(
            f"{model}: it is of the family {sizes.family}, or its heads are filled up with zeros; only models of "
            f"{', '.join(_FAMILIES)} with whole heads can be recovered"
        )
    weights: Weights = {
        "model.embed_tokens.weight": body.map("embeddings", model),
        "model.norm.weight": body.map("norm.weight", model),
    }
    if not sizes.tied_head:
        weights["lm_head.weight"] = head.map("head.rows", model)
    for layer in range(sizes.layers):
        weights |= _layer(body, model, layer, sizes)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    for file in (*CONFIGURATION, *CAUSAL_TOKENIZER, *CAUSAL_TOKENIZER_EXTRAS):
        if (model / file).is_file():
            shutil.copy(model / file, out / file)
    return weights


def _layer(body: WrittenWeights, model: Path, layer: int, sizes: CausalSizes) -> Weights:
    """Names and values of one layer. Graphs hold products as (in, out), checkpoints as (out, in)."""
    packed, own = f"layers.{layer}", f"model.layers.{layer}"
    key_width = sizes.kv_heads * sizes.head_size
    cuts = [sizes.attention_width, sizes.attention_width + key_width]
    weights: Weights = {}

    def take(name: str, own_names: list[str]) -> None:
        for part in ("weight", "bias"):
            if f"{packed}.{name}.{part}" not in body:
                continue
            tensor = body.map(f"{packed}.{name}.{part}", model)
            pieces = np.split(tensor, cuts, axis=-1) if len(own_names) > 1 else [tensor]
            for own_name, piece in zip(own_names, pieces, strict=True):
                weights[f"{own}.{own_name}.{part}"] = np.ascontiguousarray(piece.T)

    take("qkv", [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")])
    take("out", ["self_attn.o_proj"])
    for name in ("gate_proj", "up_proj", "down_proj"):
        take(name, [f"mlp.{name}"])
    for name in ("input_layernorm", "post_attention_layernorm"):
        take(name, [name])
    return weights


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.lm_checkpoint", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", type=Path, default=DEMO, help="a folder of native graphs, in float32")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    options = parser.parse_args(arguments)
    weights = recover(options.model, options.out)
    print(f"{len(weights)} weights, {sum(value.size for value in weights.values()):,} parameters in {options.out}")


if __name__ == "__main__":
    main()
