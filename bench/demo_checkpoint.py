"""The Hugging Face checkpoint of a Marian model, recovered from its Optimum export.

    python -m bench.demo_checkpoint --out /tmp/demo-checkpoint [--model worker/demo/en-zh] [--check GOLDEN.json]

Knows: how torch's exporter names the nodes of a Marian. Does not know: how to run one. Only the check needs torch.

The exporter folds and renumbers the weights of products (`onnx::MatMul_868`), but a node keeps the path of its module:
`/model/decoder/layers.0/self_attn/k_proj/MatMul` multiplies by `model.decoder.layers.0.self_attn.k_proj.weight`.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors.numpy import save

from bench.tokenizer import FILES
from jobs.errors import ModelError

ENCODER, DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"
DEMO = Path(__file__).parents[1] / "worker/demo/en-zh"

Weights = dict[str, np.ndarray]


def recover(model: Path, out: Path) -> Weights:
    """Write the checkpoint of the Optimum folder `model` into `out`; returns its weights by their transformers names.

    The positions are not among them: transformers computes the sinusoids itself. Raises ModelError where a weight
    is missing, given twice with different values, or where source and target do not share one embedding.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    weights: Weights = {}
    for name, value in (*_weights_of(model / ENCODER, "model.encoder"), *_weights_of(model / DECODER, "")):
        if name in weights and not np.array_equal(weights[name], value):
            raise ModelError(f"{model}: two different values for {name}: source and target must share their embedding")
        weights[name] = value
    _check_names(model, config, weights)
    if not np.array_equal(weights.pop("lm_head.weight"), weights["model.shared.weight"]):
        raise ModelError(f"{model}: the head is not the embedding, as a checkpoint with tied weights has it")
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    for file in ("config.json", "generation_config.json", *FILES):
        if (model / file).is_file():
            shutil.copy(model / file, out / file)
    return weights


def _weights_of(file: Path, root: str) -> Iterator[tuple[str, np.ndarray]]:
    """Names and values of the weights of one graph, some more than once; `root` goes before the path of a module."""
    graph = onnx.load(str(file)).graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in _nodes(graph):
        module = ".".join(part for part in (root, *node.name.split("/")[1:-1]) if part)
        given = [values[name] for name in node.input if name in values]
        last = module.rpartition(".")[2]
        if node.op_type == "MatMul" and given:
            yield f"{module}.weight", np.ascontiguousarray(given[0].T)  # transformers has (out, in)
        elif node.op_type == "Add" and (last.endswith("_proj") or last.startswith("fc")):
            yield f"{module}.bias", given[0]
        elif node.op_type == "LayerNormalization":
            yield f"{module}.weight", given[0]
            yield f"{module}.bias", given[1]
        elif node.op_type == "Gather" and last in ("embed_tokens", "shared"):
            yield "model.shared.weight", given[0]
        elif node.op_type == "Add" and node.name == "/Add" and given:
            yield "final_logits_bias", given[0]


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of the branches too: cross-attention's keys are computed only where there is no cache."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _check_names(model: Path, config: dict[str, Any], weights: Weights) -> None:
    wanted = {"model.shared.weight", "final_logits_bias", "lm_head.weight"}
    for side, parts in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(config[f"{side}_layers"]):
            path = f"model.{side}.layers.{layer}"
            modules = ["fc1", "fc2", "final_layer_norm"]
            for part in parts:
                modules += [f"{part}_layer_norm", *(f"{part}.{end}_proj" for end in ("q", "k", "v", "out"))]
            wanted |= {f"{path}.{module}.{end}" for module in modules for end in ("weight", "bias")}
    if odd := sorted(wanted ^ weights.keys()):
        kind = "lacks" if odd[0] in wanted else "has, unlike a Marian,"
        raise ModelError(f"{model}: the graph {kind} {odd[0]} (and {len(odd) - 1} more); export it with Optimum")


def check(checkpoint: Path, golden: Path) -> tuple[int, int]:
    """How many hypotheses transformers finds in the checkpoint as `golden` has them, of how many."""
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
    parser = argparse.ArgumentParser(prog="python -m bench.demo_checkpoint", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=DEMO, help="the Optimum folder")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--check", type=Path, metavar="GOLDEN", help="ids that transformers has to find with it")
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
