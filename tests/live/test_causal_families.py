"""The further families of causal models, compared with transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.bloom import modeling_bloom
from transformers.models.falcon import modeling_falcon

from tests.causal_checkpoints import write_kv_model
from tests.causal_families import FAMILIES, write_family
from tests.live.greedy_generate import compare, draw_prompts
from tests.live.test_causal_against_transformers import of_group
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group
from worker.engine.runtime.run_context import RunContext
from worker.graphs.causal.alibi import Alibi
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.models.checkpoint.checkpoint import Checkpoint

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

READERS = {"packed": CallLimits(), "chunked": CallLimits(tokens=17, padded=40, head_rows=9, scores=4 * 6000)}


def open_network(checkpoint: Path, *, is_alibi_falcon: bool = False) -> Any:
    """The checkpoint in transformers, which has to know all of its tensors."""
    torch.set_num_threads(1)
    attention = "sdpa" if is_alibi_falcon else "eager"  # eager adds Falcon's ALiBi twice
    network, report = transformers.AutoModelForCausalLM.from_pretrained(
        checkpoint, attn_implementation=attention, dtype=torch.float32, output_loading_info=True
    )
    assert not any(report.values()), report
    return network.eval()


def draw_groups(limit: int) -> list[Group]:
    rng = np.random.default_rng(9)

    def draw(length: int) -> list[int]:
        return [int(i) for i in rng.integers(0, 300, length)]

    groups = [Group([], [draw(length)]) for length in (limit, 2, 1, 60, 61, 5)]
    half = limit // 2
    return [*groups, Group(draw(half), [draw(length) for length in (1, 9, half, 2)]), Group(draw(30), [draw(12)])]


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_and_continuations_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    """Log-probabilities of texts packed, in chunks and alone, with a prefix and without, and in numpy; the ids that
    continue prompts, with the cache."""
    checkpoint = write_family(tmp_path / "checkpoint", name, seed=9)
    network = open_network(checkpoint, is_alibi_falcon=name == "falcon, alibi")
    model = NativeCausal.open(write_kv_model(checkpoint, tmp_path / "kv"))
    groups = draw_groups(model.max_positions)
    wanted = [of_group(network, group) for group in groups]

    readers = {name: PackedReader(model.graphs, limits) for name, limits in READERS.items()}
    for way, reader in (readers | {"alone": model.new_reader(is_packed=False)}).items():
        found = dict(reader.read(groups, RunContext()))
        for index, each in enumerate(wanted):
            for one, other in zip(found[index], each, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=5e-5, err_msg=f"{way}, group {index}")
    whole = [[*group.prefix, *group.suffixes[0]] for group in groups]
    for one, group, each in zip(NumpyCausal.open(checkpoint).log_probs(whole), groups, wanted, strict=True):
        np.testing.assert_allclose(one[max(0, len(group.prefix) - 1) :], each[0], rtol=0, atol=5e-5)
    compare(model, network, draw_prompts(300, 48)[::2], 8, {})


@pytest.mark.parametrize("heads", [4, 6, 32])
def test_alibi_is_that_of_transformers(heads: int) -> None:
    """Falcon's is rounded to bfloat16, BLOOM's is not."""
    mask = torch.ones(1, 700, dtype=torch.long)
    for module, rounds in ((modeling_falcon, True), (modeling_bloom, False)):
        expected = module.build_alibi_tensor(mask, heads, torch.float32)[:, 0].T.numpy()
        np.testing.assert_allclose(Alibi(is_scaled=rounds, rounds=rounds).biases(heads, 700), expected, rtol=2e-7)


@pytest.mark.parametrize("name", ["gpt2", "bloom", "gpt_neox", "opt"])
def test_a_network_saved_without_its_head_is_read_completely(tmp_path: Path, name: str) -> None:
    whole = write_family(tmp_path / "whole", name, tie_word_embeddings=True)
    transformers.AutoModel.from_pretrained(whole).save_pretrained(tmp_path / "base")
    expected, base = Checkpoint.open(whole).weights, Checkpoint.open(tmp_path / "base").weights
    assert {*base} == {*expected}
    for key, weight in base.items():
        np.testing.assert_array_equal(weight, expected[key])
