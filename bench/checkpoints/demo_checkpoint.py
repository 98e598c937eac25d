"""Recover the Hugging Face checkpoint of a Marian model from its native graphs.

    python -m bench.checkpoints.demo_checkpoint --out DIR [--model worker/demo/en-zh] [--check GOLDEN.json]

Knows: how `worker.graphs.seq2seq.graphs` names and packs tensors. Does not know: how to run one. Only the check needs
torch.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from bench.checkpoints.tokenizer import FILES
from jobs.errors import ModelError
from worker.graphs.file_names import DECODER, ENCODER
from worker.graphs.weights import WrittenWeights

DEMO = Path(__file__).parents[2] / "worker/demo/en-zh"

Weights = dict[str, np.ndarray]

_ATTENTION = ("q_proj", "k_proj", "v_proj")


def recover(model: Path, out: Path) -> Weights:
    """Write the checkpoint of the folder `model` into `out`; returns its weights by their transformers names.

    The positions are not among them: transformers computes the sinusoids itself. Raises ModelError for a model that is
    not in float32 or whose source and target do not share their embeddings.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    stores = {side: WrittenWeights.read(model / file) for side, file in (("encoder", ENCODER), ("decoder", DECODER))}
    if "embeddings" not in stores["decoder"] or "packed_cross.weight" not in stores["encoder"]:
        raise ModelError(f"{model}: only a model in float32 whose source and target share embeddings can be recovered")
    read = {side: lambda name, store=store: store.map(name, model) for side, store in stores.items()}
    weights: Weights = {"model.shared.weight": read["decoder"]("embeddings")}
    vocab_size = len(weights["model.shared.weight"])
    biased = "head.bias" in stores["decoder"]
    weights["final_logits_bias"] = (
        read["decoder"]("head.bias").reshape(1, -1) if biased else np.zeros((1, vocab_size), np.float32)
    )
    for side in ("encoder", "decoder"):
        for layer in range(config[f"{side}_layers"]):
            weights.update(_layer(read[side], f"{side}.layers.{layer}", side == "decoder"))
    for part, turned in (("weight", True), ("bias", False)):
        packed = np.split(read["encoder"](f"packed_cross.{part}"), 2 * config["decoder_layers"], axis=-1)
        for index, tensor in enumerate(packed):
            name = f"model.decoder.layers.{index // 2}.encoder_attn.{'kv'[index % 2]}_proj.{part}"
            weights[name] = np.ascontiguousarray(tensor.T if turned else tensor)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    for file in ("config.json", "generation_config.json", *FILES):
        if (model / file).is_file():
            shutil.copy(model / file, out / file)
    return weights


def _layer(read, layer: str, is_decoder: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Names and values of one layer, except the keys and values of its cross-attention."""
    packed = "_".join(f"self_attn.{name}" for name in _ATTENTION)
    for part, turned in (("weight", True), ("bias", False)):
        for name, tensor in zip(_ATTENTION, np.split(read(f"{layer}.{packed}.{part}"), 3, axis=-1), strict=True):
            yield f"model.{layer}.self_attn.{name}.{part}", np.ascontiguousarray(tensor.T if turned else tensor)
        linear = ["self_attn.out_proj", "fc1", "fc2"]
        norms = ["self_attn_layer_norm", "final_layer_norm"]
        if is_decoder:
            linear += ["encoder_attn.q_proj", "encoder_attn.out_proj"]
            norms.append("encoder_attn_layer_norm")
        for name in linear:
            tensor = read(f"{layer}.{name}.{part}")
            yield f"model.{layer}.{name}.{part}", np.ascontiguousarray(tensor.T if turned else tensor)
        for name in norms:
            yield f"model.{layer}.{name}.{part}", read(f"{layer}.{name}.{part}")


def check(checkpoint: Path, golden: Path) -> tuple[int, int]:
    """(equal, all): of the hypotheses in `golden`, how many transformers finds with the checkpoint."""
    import torch
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(checkpoint).eval()
    written = json.loads(golden.read_text(encoding="utf-8"))
    equal = total = 0
    for case in written["cases"]:
        for source, hypotheses in zip(written["sources"], case["hypotheses"], strict=True):
            with torch.no_grad():
                found = model.generate(torch.tensor([source]), **case["settings"])[:, 1:].tolist()
            for ids, hypothesis in zip(found, hypotheses, strict=False):
                wanted = hypothesis["ids"]
                padding = set(ids[len(wanted) :])
                equal += ids[: len(wanted)] == wanted and padding <= {model.config.pad_token_id}
                total += 1
    return equal, total


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.demo_checkpoint", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", type=Path, default=DEMO, help="a folder of native graphs, in float32")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--check", type=Path, metavar="GOLDEN", help="a file of ids that transformers has to find with the checkpoint"
    )
    options = parser.parse_args(arguments)
    weights = recover(options.model, options.out)
    print(f"{len(weights)} weights, {sum(value.size for value in weights.values()):,} parameters in {options.out}")
    if options.check:
        equal, total = check(options.out, options.check)
        print(f"{equal} of {total} hypotheses are those of {options.check}")
        if equal < total:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
