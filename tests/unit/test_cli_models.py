"""`kvjobs models`: what there is, and what is wrong with it."""

from pathlib import Path

import pytest

from tests.unit.conftest import Kvjobs
from worker.cli.models import describe
from worker.models import registry
from worker.models.inspect import FileSize, GraphDescription, ModelDescription
from worker.models.layouts import Tensor


@pytest.fixture
def half_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration and nothing else; no bundled model."""
    monkeypatch.setattr(registry, "BUNDLED", {})
    folder = home / "models" / "half"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"vocab_size": 7}')
    return folder


def test_ls_lists_folders_and_says_what_they_lack(kvjobs: Kvjobs, half_a_model: Path) -> None:
    (model,) = kvjobs("models", "ls", "--json").json

    assert (model["name"], model["state"], model["size"], model["path"]) == (
        "half",
        "incomplete",
        17,
        str(half_a_model),
    )
    assert "encoder" in model["problem"]
    assert kvjobs("models", "ls", "-q").out == "half\n"
    assert kvjobs("models", "ls").out.splitlines()[1].split() == [
        "half",
        "17",
        "bytes",
        "incomplete",
        str(half_a_model),
    ]


def test_ls_of_no_models_is_an_empty_list(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BUNDLED", {})

    assert kvjobs("models", "ls", "--json").out == "[]\n"
    assert "There is no model" in kvjobs("models", "ls").err


def test_inspect_of_what_cannot_run_says_why(kvjobs: Kvjobs, half_a_model: Path) -> None:
    result = kvjobs("models", "inspect", "half")

    assert result.exit_code == 1
    assert result.out.startswith("Model half: cannot run\n  PROBLEM ")
    assert kvjobs("models", "inspect", half_a_model, "--json").json["problems"]


def test_a_model_that_is_not_there_is_5(kvjobs: Kvjobs, half_a_model: Path) -> None:
    result = kvjobs("models", "inspect", "hlaf")

    assert result.exit_code == 5
    assert "did you mean half?" in result.err


def test_inspect_tells_the_layout_and_every_graph() -> None:
    encoder = GraphDescription(
        file="encoder_model.onnx",
        is_used=True,
        inputs=(Tensor("input_ids", "tensor(int64)", ("batch", None)),),
        outputs=(Tensor("last_hidden_state", "tensor(float)", ("batch", None, 512)),),
        problem=None,
    )
    page = "\n".join(
        describe(
            ModelDescription(
                name="opus",
                path="/models/opus",
                revision="abc",
                layout="merged",
                num_layers=6,
                num_heads=8,
                head_size=64,
                cache_dtype="float32",
                width=512,
                max_positions=512,
                source_vocab_size=65001,
                target_vocab_size=65001,
                languages=tuple(f"l{number:02}" for number in range(30)),
                graphs=(encoder,),
                files=(FileSize("encoder_model.onnx", 2048),),
                problems=(),
            )
        )
    )

    assert page.startswith("Model opus: can run\n")
    assert "cache      6 layers, 8 heads of 64, float32" in page
    assert "65,001 in, 65,001 out" in page
    assert "l19 and 10 more" in page
    assert "  -> input_ids: tensor(int64) [batch, ?]" in page
    assert "  <- last_hidden_state: tensor(float) [batch, ?, 512]" in page
