"""Native graphs of the seq2seq families besides Marian: the ids and log-probabilities of transformers.

`tests/golden/make_seq2seq_golden.py` recorded them.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.places import GOLDEN
from tests.seq2seq_checkpoints import FAMILIES
from tests.split_models import split_kv_model
from tests.tiny_models import Case, assert_golden, decode
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.precision import Precision
from worker.graphs.seq2seq import graphs
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify.references import open_numpy_seq2seq
from worker.models.json_file import read_json

RECORDED = json.loads((GOLDEN / "seq2seq.json").read_text(encoding="utf-8"))
LONGEST_SHARE = 0.02  # of int8's log-probabilities, off by at most this share


@dataclass(frozen=True)
class Added:
    """A tiny model of a family, as `models add` builds it, and what transformers gives."""

    checkpoint: Path
    folder: Path
    model: NativeSeq2Seq
    golden: dict[str, Any]

    def rules(self, **settings: Any) -> GenerationConfig:
        config = read_json(self.folder / "config.json")
        return read_generation(
            config,
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=config["vocab_size"],
            max_positions=self.model.max_positions,
        )

    def log_probs(self) -> list[Any]:
        """Of the recorded pairs, in their order."""
        pairs = [IdPair(pair["source"], pair["target"]) for pair in self.golden["pairs"]][::-1]  # longest first
        return self.model.new_scorer().log_probs(pairs, RunContext())[::-1]


@pytest.fixture(scope="module", params=FAMILIES)
def added(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Added:
    root = tmp_path_factory.mktemp(request.param)
    checkpoint = FAMILIES[request.param](root / "checkpoint")
    return open_added(checkpoint, root / "models", RECORDED[request.param])


def open_added(checkpoint: Path, models_dir: Path, golden: dict[str, Any], **options: Any) -> Added:
    folder = Path(add_model(Request(source=str(checkpoint), name="model", **options), models_dir).path)
    return Added(checkpoint, folder, NativeSeq2Seq.open(folder), golden)


@pytest.mark.parametrize("case", range(6))
def test_ids_and_scores_are_those_of_transformers(added: Added, case: int) -> None:
    recorded = Case(**added.golden["cases"][case])

    assert_golden(decode(added.model, added.golden["sources"], added.rules(**recorded.settings), rows=3), recorded)


@pytest.mark.parametrize("cache", ["off", "hybrid:3"])
def test_without_a_cache_the_ids_are_the_same(added: Added, cache: str) -> None:
    recorded = Case(**added.golden["cases"][2])
    rules = added.rules(**recorded.settings)

    assert_golden(decode(added.model, added.golden["sources"], rules, cache=cache), recorded)


def test_log_probs_of_given_targets_are_those_of_transformers(added: Added) -> None:
    for found, pair in zip(added.log_probs(), added.golden["pairs"], strict=True):
        np.testing.assert_allclose(found, pair["log_probs"], atol=1e-5)


def test_the_reference_in_numpy_gives_the_log_probs_of_transformers(added: Added) -> None:
    reference = open_numpy_seq2seq(added.checkpoint)
    start = read_json(added.folder / "config.json")["decoder_start_token_id"]

    for pair in added.golden["pairs"][:3]:
        logits = reference.logits(pair["source"], [start, *pair["target"][:-1]]).astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(log_probs[np.arange(len(logits)), pair["target"]], pair["log_probs"], atol=1e-5)


def test_an_activation_that_the_configuration_names_beside_its_product_is_computed(tmp_path: Path) -> None:
    """T5's `dense_act_fn`, which transformers derives of feed_forward_proj, writes into config.json and reads there."""
    checkpoint = FAMILIES["t5"](tmp_path / "checkpoint")
    file = checkpoint / "config.json"
    file.write_text(json.dumps(read_json(file) | {"dense_act_fn": "gelu_new"}))
    small = open_added(checkpoint, tmp_path / "models", RECORDED["t5"])
    reference = open_numpy_seq2seq(checkpoint)

    for found, pair in zip(small.log_probs(), small.golden["pairs"], strict=True):
        logits = reference.logits(pair["source"], [0, *pair["target"][:-1]]).astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found, log_probs[np.arange(len(logits)), pair["target"]], atol=1e-5)
        assert np.abs(found - pair["log_probs"]).max() > 1e-3, "of relu"


def test_stages_compute_what_the_whole_model_computes(added: Added, tmp_path: Path) -> None:
    stages = NativeSeq2Seq.open(split_kv_model(added.folder, tmp_path / "split", 3))
    rules, sources = added.rules(num_beams=4), added.golden["sources"]

    assert decode(stages, sources, rules) == decode(added.model, sources, rules)
    assert decode(stages, sources, rules, cache="off") == decode(added.model, sources, rules, cache="off")


def test_a_large_head_is_screened_and_gives_the_same_ids(
    added: Added, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "LARGE_HEAD", 8)
    screened = open_added(added.checkpoint, tmp_path, added.golden)

    assert screened.model.graphs.screen() is not None
    recorded = Case(**added.golden["cases"][0])
    assert_golden(decode(screened.model, added.golden["sources"], added.rules(**recorded.settings)), recorded)


def test_int8_is_near_and_does_not_depend_on_the_batch(added: Added, tmp_path: Path) -> None:
    small = open_added(added.checkpoint, tmp_path, added.golden, precision=Precision.INT8)
    rules, sources = added.rules(num_beams=1), added.golden["sources"]

    for found, pair in zip(small.log_probs(), added.golden["pairs"], strict=True):
        wanted = np.array(pair["log_probs"])
        assert abs(found.sum() - wanted.sum()) < LONGEST_SHARE * abs(wanted.sum())
    together = decode(small.model, sources, rules)
    assert together == [found for source in sources for found in decode(small.model, [source], rules)]


def test_padding_that_starts_texts_is_refused_where_positions_leave_it_out(tmp_path: Path) -> None:
    """M2M100 gives padding no position of its own, so every later token of a text would move by one."""
    checkpoint = FAMILIES["m2m100"](tmp_path / "checkpoint")
    for file in (checkpoint / "config.json", checkpoint / "generation_config.json"):
        file.write_text(json.dumps(read_json(file) | {"decoder_start_token_id": 1}))

    with pytest.raises(ModelError, match=r"pad_token_id = 1"):
        add_model(Request(source=str(checkpoint)), tmp_path / "models")
