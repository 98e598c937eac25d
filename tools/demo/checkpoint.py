"""Make a Hugging Face checkpoint of the bundled translation model again, whose training it continues.

    python -m tools.demo.checkpoint worker/demo/en-zh --out CHECKPOINT
    python -m tools.demo.train --out worker/demo/en-zh --checkpoint CHECKPOINT --resume ...

The checkpoint was not kept, but the graphs in float32 have its numbers: `model.safetensors` gets the bytes whose sha256
kvjobs.json names, with transformers 4.57.6. Needs the extra `train`.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from worker.graphs.file_names import DECODER, ENCODER
from worker.graphs.weights import WrittenWeights

TOKENIZER = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")
SELF_ATTENTION = tuple(f"self_attn.{part}_proj" for part in "qkv")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.checkpoint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of the model with native graphs, in fp32")
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    options = parser.parse_args()
    write_checkpoint(options.folder, options.out)


def write_checkpoint(folder: Path, out: Path) -> None:
    """Write config, weights and tokenizer of the Marian model in `folder` to `out`."""
    config = MarianConfig.from_pretrained(folder)
    model = MarianMTModel(config)
    model.load_state_dict(_parameters(folder, config), strict=False)  # what is tied or computed is not in it
    model.tie_weights()
    model.generation_config = GenerationConfig.from_pretrained(folder)
    model.save_pretrained(out)
    for name in TOKENIZER:
        shutil.copy(folder / name, out / name)


def _parameters(folder: Path, config: Any) -> dict[str, Any]:
    """The tensors by their names in the checkpoint; `worker.graphs.seq2seq.block` puts several into one product."""
    stores = [WrittenWeights.read(folder / name) for name in (ENCODER, DECODER)]

    def stored(name: str) -> Any:
        return torch.from_numpy(np.array(next(store.map(name, folder) for store in stores if name in store)))

    found = {"model.shared.weight": stored("embeddings")}
    cross = {kind: stored(f"packed_cross.{kind}") for kind in ("weight", "bias")}
    keys_and_values = [
        (f"model.decoder.layers.{layer}.encoder_attn.{part}_proj", 2 * layer + at)
        for layer in range(config.decoder_layers)
        for at, part in enumerate("kv")
    ]
    for name, at in keys_and_values:
        parts = cross["weight"].T.chunk(2 * config.decoder_layers), cross["bias"].chunk(2 * config.decoder_layers)
        found[f"{name}.weight"], found[f"{name}.bias"] = (part[at].contiguous() for part in parts)
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        of_source = [("encoder_attn.q_proj",), ("encoder_attn.out_proj",)] if side == "decoder" else []
        products = [SELF_ATTENTION, ("self_attn.out_proj",), ("fc1",), ("fc2",), *of_source]
        norms = ["self_attn", "final", *(["encoder_attn"] if side == "decoder" else [])]
        for layer in (f"{side}.layers.{number}" for number in range(count)):
            for names in products:
                product = f"{layer}.{'_'.join(names)}"
                weights, biases = stored(f"{product}.weight").T, stored(f"{product}.bias")
                for name, weight, bias in zip(names, weights.chunk(len(names)), biases.chunk(len(names)), strict=True):
                    found[f"model.{layer}.{name}.weight"] = weight.contiguous()
                    found[f"model.{layer}.{name}.bias"] = bias.contiguous()
            for norm in norms:
                for kind in ("weight", "bias"):
                    name = f"{layer}.{norm}_layer_norm.{kind}"
                    found[f"model.{name}"] = stored(name)
    return found


if __name__ == "__main__":
    main()
