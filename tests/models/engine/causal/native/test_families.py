"""The further families of causal models, against what transformers recorded (tests/golden/make_causal_golden.py)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.tasks.shared_options import CachePolicy
from tests.causal_checkpoints import write_kv_model
from tests.causal_families import write_family
from tests.models.engine.causal.greedy_oracle import generate
from tests.places import GOLDEN
from tests.split_models import split_kv_model
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group, LogProbs, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import read_continuation_rules
from worker.graphs.precision import Precision

CASES = {case["name"]: case for case in json.loads((GOLDEN / "causal_families.json").read_text("utf-8"))["cases"]}
CHUNKED = CallLimits(tokens=13, padded=30, head_rows=7)
# Nats a token on the mean; of the random weights of these tests.
DRIFTS = {Precision.INT8: 0.1, Precision.FP16: 0.01}


def open_family(folder: Path, name: str, precision: Precision = Precision.FP32, **changed: Any) -> NativeCausal:
    checkpoint = write_family(folder / "checkpoint", name, **changed)
    return NativeCausal.open(write_kv_model(checkpoint, folder / "kv", precision))


def read(model: NativeCausal, sequences: list[list[int]], limits: CallLimits = CallLimits()) -> list[LogProbs]:  # noqa: B008
    found = read_all(PackedReader(model.graphs, limits), [Group([], [ids]) for ids in sequences], RunContext())
    return [log_probs for (log_probs,) in found]


@pytest.mark.parametrize("name", CASES)
def test_every_token_has_the_log_probability_of_transformers(tmp_path: Path, name: str) -> None:
    """Both with all sequences packed, and with sequences cut into small chunks."""
    model, case = open_family(tmp_path, name), CASES[name]
    for limits in (CallLimits(), CHUNKED):
        for found, expected in zip(read(model, case["sequences"], limits), case["log_probs"], strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


DRIFTING = ["gemma2", "granite, tied", "olmo2", "phi", "phi3", "gpt2", "bloom", "falcon, groups"]


@pytest.mark.parametrize("name", [*DRIFTING, "stablelm, normalized heads of 12", "phi, normalized heads of 8"])
@pytest.mark.parametrize("precision", DRIFTS)
def test_other_precisions_stay_near(tmp_path: Path, name: str, precision: Precision) -> None:
    model, case = open_family(tmp_path, name, precision), CASES[name]
    found, expected = (np.concatenate(some) for some in (read(model, case["sequences"]), case["log_probs"]))
    assert np.abs(found - expected).mean() < DRIFTS[precision]


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("name", ["gemma2", "phi"])
def test_the_head_that_chooses_tokens_agrees_with_the_one_that_scores(
    tmp_path: Path, name: str, precision: Precision
) -> None:
    """With a cap of the logits, and with a bias of them, behind the scales of int8."""
    model, prompt = open_family(tmp_path, name, precision), [5, 9, 12]
    rules = read_continuation_rules({}, {"eos_token_id": None, "max_new_tokens": 6}, vocab_size=model.vocab_size)
    (found,) = generate(model, [prompt], rules, batch_size=1)
    (scored,) = read(model, [[*prompt, *found.ids]])
    assert found.log_prob == pytest.approx(scored[len(prompt) - 1 :].sum(), abs=2e-2)


@pytest.mark.parametrize(
    "name", ["gpt2", "opt, norms of sums", "bloom", "gemma3_text", "smollm3", "stablelm, normalized heads"]
)
def test_stages_compute_what_the_whole_model_does(tmp_path: Path, name: str) -> None:
    model = open_family(tmp_path, name)
    split = NativeCausal.open(split_kv_model(tmp_path / "kv", tmp_path / "split", 2))
    for log_probs, expected in zip(
        *(read(variant, CASES[name]["sequences"]) for variant in (model, split)), strict=True
    ):
        np.testing.assert_array_equal(log_probs, expected)


@pytest.mark.parametrize("name", ["gemma3_text", "gpt2", "falcon, alibi"])
def test_continuations_with_the_cache_are_those_without(tmp_path: Path, name: str) -> None:
    model = open_family(tmp_path, name)
    rules = read_continuation_rules({}, {"eos_token_id": None, "max_new_tokens": 9}, vocab_size=model.vocab_size)
    prompts = [[5, 9, 12, 40, 41, 42, 43, 44, 45, 46], [7], [100, 101, 102]]
    uncached = model.new_generator(CachePolicy(mode="off"))
    expected = {
        i: continuation.ids
        for pairs in uncached.generate(prompts, rules, RunContext(), batch_size=2)
        for i, continuation in pairs
    }
    assert dict(enumerate(continuation.ids for continuation in generate(model, prompts, rules))) == expected
