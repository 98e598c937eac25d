"""The checkpoint that is recovered from the graphs of a causal model."""

import json
from pathlib import Path

import pytest

from bench.checkpoints.lm_checkpoint import DEMO, recover
from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from worker.graphs.file_names import BODY, HEAD, WEIGHTS
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


def test_every_weight_of_the_demo_model_is_recovered_under_its_own_name(tmp_path):
    weights = recover(DEMO, tmp_path)

    config = json.loads((tmp_path / "config.json").read_text())
    head_size = config["hidden_size"] // config["num_attention_heads"]
    assert len(weights) == 2 + 12 * config["num_hidden_layers"]
    assert weights["model.embed_tokens.weight"].shape == (config["vocab_size"], config["hidden_size"])
    key_width = config["num_key_value_heads"] * head_size
    assert weights["model.layers.0.self_attn.k_proj.weight"].shape == (key_width, config["hidden_size"])
    assert weights["model.layers.0.self_attn.v_proj.bias"].shape == (key_width,)
    assert weights["model.layers.3.mlp.down_proj.weight"].shape == (config["hidden_size"], config["intermediate_size"])
    assert (tmp_path / "tokenizer.json").is_file()


def test_the_recovered_checkpoint_gives_the_same_graphs(tmp_path):
    recover(DEMO, tmp_path / "checkpoint")
    added = add_model(Request(source=str(tmp_path / "checkpoint"), name="again"), tmp_path)

    for file in (BODY, HEAD, WEIGHTS):
        assert (Path(added.path) / file).read_bytes() == (DEMO / file).read_bytes()


def test_a_model_in_int8_is_refused(tmp_path):
    write_causal_checkpoint(tmp_path / "checkpoint", "qwen2")
    add_model(Request(source=str(tmp_path / "checkpoint"), name="int8", precision=Precision.INT8), tmp_path)

    with pytest.raises(ModelError, match=r"only .*causal .*float32"):
        recover(tmp_path / "int8", tmp_path / "out")

    assert not (tmp_path / "out").exists()
