"""The smallest causal export: a bigram model, in which the next token depends on the last one alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.causal_checkpoints import write_causal_tokenizer

VOCAB_SIZE = 300


def write_export(
    folder: Path, *, has_past: bool = False, has_external_weights: bool = False, place: str = ".", **config: Any
) -> Path:
    """Write config.json, tokenizer and model.onnx; the past, if any, is passed on and does not affect the logits."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    write_causal_tokenizer(folder, VOCAB_SIZE)
    (folder / "config.json").write_text(
        json.dumps({
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1,
            "n_positions": 64, "vocab_size": VOCAB_SIZE, **config,
        })
    )  # fmt: skip
    table = np.random.default_rng(0).normal(0.0, 2.0, (VOCAB_SIZE, VOCAB_SIZE)).astype(np.float32)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", VOCAB_SIZE])
    nodes, inputs, outputs = [helper.make_node("Gather", ["table", "input_ids"], ["logits"])], [ids], [logits]
    weights = [numpy_helper.from_array(table, "table")]
    if has_past:
        weights += [
            numpy_helper.from_array(np.ones((VOCAB_SIZE, 8), np.float32), "keys"),
            numpy_helper.from_array(np.array([0, 0, 2, 4]), "heads"),
        ]
        nodes += [
            helper.make_node("Gather", ["keys", "input_ids"], ["flat"]),
            helper.make_node("Reshape", ["flat", "heads"], ["split"]),
            helper.make_node("Transpose", ["split"], ["new"], perm=[0, 2, 1, 3]),
        ]
        for part in ("key", "value"):
            past, present = f"past_key_values.0.{part}", f"present.0.{part}"
            inputs.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, ["batch", 2, "past", 4]))
            outputs.append(helper.make_tensor_value_info(present, TensorProto.FLOAT, ["batch", 2, "all", 4]))
            nodes.append(helper.make_node("Concat", [past, "new"], [present], axis=2))
    graph = helper.make_graph(nodes, "bigrams", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(
        model,
        folder / place / "model.onnx",
        save_as_external_data=has_external_weights,
        location="model.onnx_data",
        size_threshold=1024,
    )
    return folder
