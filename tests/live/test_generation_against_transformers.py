"""Settings of generation_config.json that transformers interprets in unexpected ways: the tokens of both are equal."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from jobs.tasks.translate import TranslateOptions
from tests.checkpoints import write_marian_checkpoint
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.model_tools.add.add import Request, add_model

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SOURCES = [[5, 9, 12, 7, 0], [33, 4, 0], [21, 22, 23, 24, 25, 26, 0], [60, 3, 8, 0]]
PAD = 71


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A model that sometimes generates padding if it is allowed."""
    folder = write_marian_checkpoint(tmp_path / "tiny", seed=0)
    weights = load_file(folder / "model.safetensors")
    weights["final_logits_bias"][0, PAD] += 2.3
    save_file(weights, folder / "model.safetensors")
    return folder


def both(checkpoint: Path, tmp_path: Path, settings: dict[str, Any], options: TranslateOptions) -> Any:
    """The ids that transformers and kvjobs generate with these settings, without the start token."""
    values = json.loads((checkpoint / "generation_config.json").read_text())
    values = {name: value for name, value in (values | settings).items() if value is not None}
    (checkpoint / "generation_config.json").write_text(json.dumps(values))
    torch.set_num_threads(1)
    model = transformers.MarianMTModel.from_pretrained(checkpoint)
    expected = []
    for source in SOURCES:
        with torch.no_grad():
            (ids,) = model.generate(torch.tensor([source])).tolist()
        expected.append(tuple(ids[1 : ids.index(0) + 1 if 0 in ids else None]))
    network = open_seq2seq_model(Path(add_model(Request(source=str(checkpoint), force=True), tmp_path / "models").path))
    rules = network.generation.with_options(options, max_positions=network.max_positions)
    generated: dict[int, tuple[int, ...]] = {}
    for found in network.new_decoder().decode(SOURCES, rules, RunContext(), batch_size=32):
        generated |= {index: hypotheses[0].ids for index, hypotheses in found}
    return expected, [generated[index] for index in range(len(SOURCES))]


@pytest.mark.parametrize(("max_length", "tokens"), [(19, 18), (20, 20), (21, 20)])
def test_max_length_gives_as_many_tokens_as_in_transformers(
    checkpoint: Path, tmp_path: Path, max_length: int, tokens: int
) -> None:
    settings = {"max_length": max_length, "min_length": max_length, "num_beams": 1, "forced_eos_token_id": None}

    expected, generated = both(checkpoint, tmp_path, settings, TranslateOptions())

    assert generated == expected
    assert {len(ids) for ids in expected} == {tokens}


@pytest.mark.parametrize("num_beams", [1, 3])
def test_allowed_padding_is_generated_where_transformers_generates_it(
    checkpoint: Path, tmp_path: Path, num_beams: int
) -> None:
    settings = {"bad_words_ids": None, "max_length": 24, "num_beams": num_beams, "min_length": 0}

    expected, generated = both(checkpoint, tmp_path, settings, TranslateOptions(allow_pad=True))
    _, without = both(checkpoint, tmp_path, settings, TranslateOptions())

    assert generated == expected
    assert any(PAD in ids for ids in expected)
    assert not any(PAD in ids for ids in without)
