"""Native graphs of cross-encoders: equal to sentence-transformers, and the same in a batch as alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cross_encoder_checkpoints import POSITIONS, SETTINGS
from worker.engine.cross_encoder.model import CrossEncoder, CrossEncoderScorer, PairIds, PairLimits, score_all
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.graphs.precision import Precision
from worker.model_tools.verify.numpy_cross_encoder import NumpyCrossEncoder

GOLDEN: dict[str, Any] = {
    one["name"]: one["pairs"]
    for one in json.loads((Path(__file__).parents[3] / "golden" / "cross_encoder.json").read_text())["models"]
}
LENGTHS = (64, 3, 5, 40, 41, 63, 17, 17, 30)


def pairs_of(model: CrossEncoder, lengths: tuple[int, ...] = LENGTHS) -> list[PairIds]:
    """Random ids above the special tokens' ids; the second half is the document."""
    rng = np.random.default_rng(5)
    types = (0, 1) if model.token_types > 1 else (0, 0)
    return [
        PairIds(
            rng.integers(5, model.vocab_size, length).tolist(),
            [types[2 * index >= length] for index in range(length)],
        )
        for length in lengths
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_pair_gets_the_ids_the_logit_and_the_score_of_sentence_transformers(tiny, name: str) -> None:
    folder = tiny.model(name)
    model = CrossEncoder.open(folder)
    reader = open_pair_reader(folder, model)
    tokenizer = reader.tokenizer
    for golden in GOLDEN[name]:
        query, document = tokenizer.encode(golden["query"]), tokenizer.encode(golden["document"])
        pair = tokenizer.join(query, document, reader.max_length)
        assert pair.ids == golden["ids"]
        assert golden["types"] is None or pair.types == golden["types"]
        assert pair.is_cut is (len(query) + len(document) + tokenizer.template.num_special > POSITIONS)
        (logit,) = score_all(model.new_scorer(), [PairIds(pair.ids, pair.types)], RunContext())
        assert logit == pytest.approx(golden["logit"], abs=1e-5)
        assert reader.score(logit) == pytest.approx(golden["score"], abs=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_batch_gives_each_pair_what_it_gets_alone(tiny, name: str) -> None:
    model = CrossEncoder.open(tiny.model(name))
    pairs = pairs_of(model)

    together = score_all(CrossEncoderScorer(model.session), pairs, RunContext())
    in_parts = score_all(CrossEncoderScorer(model.session, PairLimits(tokens=100, padded=120)), pairs, RunContext())
    alone = score_all(model.new_scorer(is_packed=False), pairs, RunContext())

    assert together == pytest.approx(alone, abs=1e-5)
    assert in_parts == pytest.approx(alone, abs=1e-5)
    assert np.std(alone) > 0.1


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert, mean, biases", "modernbert, local at the end"])
def test_the_numpy_reference_gives_the_same_logits(tiny, name: str) -> None:
    model, reference = CrossEncoder.open(tiny.model(name)), NumpyCrossEncoder.open(tiny.checkpoint(name))
    pairs = pairs_of(model)

    assert score_all(model.new_scorer(), pairs, RunContext()) == pytest.approx(
        [reference.logit(pair.ids, pair.types) for pair in pairs], abs=1e-5
    )


@pytest.mark.parametrize("name", ["bert", "modernbert, mean, biases"])
@pytest.mark.parametrize("precision", [Precision.INT8, Precision.FP16])
def test_a_lower_precision_is_near_and_independent_of_the_batch(tiny, name: str, precision: Precision) -> None:
    exact, model = CrossEncoder.open(tiny.model(name)), CrossEncoder.open(tiny.model(name, precision))
    pairs = pairs_of(model)

    found = score_all(model.new_scorer(), pairs, RunContext())

    assert found == pytest.approx(score_all(model.new_scorer(is_packed=False), pairs, RunContext()), abs=1e-4)
    assert found == pytest.approx(score_all(exact.new_scorer(), pairs, RunContext()), abs=0.3)
    assert not model.computes_in_float32()
