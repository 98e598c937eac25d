"""The checkpoint that is recovered from the graphs of the demo model; `--check` compares its translations."""

import json
from pathlib import Path

import pytest

from bench.checkpoints.demo_checkpoint import DEMO, recover
from jobs.errors import ModelError
from tests.checkpoints import write_marian_checkpoint
from worker.graphs.file_names import DECODER, ENCODER, WEIGHTS
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


def test_every_weight_of_the_demo_model_is_recovered_under_its_own_name(tmp_path):
    weights = recover(DEMO, tmp_path)

    config = json.loads((tmp_path / "config.json").read_text())
    assert len(weights) == 2 + 16 * config["encoder_layers"] + 26 * config["decoder_layers"]
    assert weights["model.shared.weight"].shape == (config["vocab_size"], config["d_model"])
    assert weights["model.decoder.layers.2.encoder_attn.k_proj.weight"].shape == (128, 128)
    assert weights["model.encoder.layers.0.fc1.weight"].shape == (512, 128)
    assert (tmp_path / "target.spm").is_file()


def test_the_recovered_checkpoint_gives_the_same_graphs(tmp_path):
    recover(DEMO, tmp_path / "checkpoint")
    added = add_model(Request(source=str(tmp_path / "checkpoint"), name="again"), tmp_path)

    for file in (DECODER, ENCODER, WEIGHTS):
        assert (Path(added.path) / file).read_bytes() == (DEMO / file).read_bytes()


def test_a_model_in_int8_is_refused(tmp_path):
    write_marian_checkpoint(tmp_path / "checkpoint")
    add_model(Request(source=str(tmp_path / "checkpoint"), name="int8", precision=Precision.INT8), tmp_path)

    with pytest.raises(ModelError, match=r"only .*float32"):
        recover(tmp_path / "int8", tmp_path / "out")

    assert not (tmp_path / "out").exists()
