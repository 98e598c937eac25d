"""Every family of causal models, and every kind of rotary positions, compared with transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.run_context import RunContext

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"tied": False},
    "llama, biases": {"attention_bias": True, "mlp_bias": True, "head_size": 10},
    "llama, linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama, dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "llama, llama3": {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
    "mistral": {},
    "mistral, window": {"sliding_window": 7},
    "qwen2": {"rope_theta": 1e6},
    "qwen2, window": {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    "qwen2, yarn": {"head_size": 32, "rope_scaling": {"rope_type": "yarn", **YARN}},
    "qwen2, yarn, given factor": {"rope_scaling": {"rope_type": "yarn", "attention_factor": 0.8, **YARN}},
    "qwen2, yarn, magnitudes": {
        "rope_scaling": {"type": "yarn", "mscale": 0.7, "mscale_all_dim": 1.2, "truncate": False, **YARN}
    },
    "qwen3": {"head_size": 24},
    "qwen3, biases": {"head_size": 16, "attention_bias": True, "tied": False},
}
LIMITS = {"packed": CallLimits(), "chunked": CallLimits(tokens=17, padded=40, head_rows=9, scores=4 * 6000)}


@pytest.mark.parametrize("name", MODELS)
def test_every_token_has_the_log_probability_of_transformers(tmp_path: Path, name: str) -> None:
    """Sequences packed, in chunks and alone; with a prefix and without."""
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", name.split(",")[0], seed=9, **MODELS[name])
    network = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    model = NativeCausal.open(write_kv_model(checkpoint, tmp_path / "kv"))
    rng = np.random.default_rng(9)

    def draw(length: int) -> list[int]:
        return [int(i) for i in rng.integers(0, 300, length)]

    groups = [Group([], [draw(length)]) for length in (128, 2, 1, 60, 61, 5)]
    groups += [Group(draw(64), [draw(length) for length in (1, 9, 64, 2)]), Group(draw(30), [draw(12)])]
    wanted = [of_group(network, group) for group in groups]
    readers = {name: PackedReader(model.graphs, limits) for name, limits in LIMITS.items()}
    for name, reader in (readers | {"alone": model.new_reader(is_packed=False)}).items():
        found = dict(reader.read(groups, RunContext()))
        for index, each in enumerate(wanted):
            for one, other in zip(found[index], each, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-4, err_msg=f"{name}, group {index}")


def of_group(network: Any, group: Group) -> list[LogProbs]:
    found = []
    for suffix in group.suffixes:
        ids, first = [*group.prefix, *suffix], max(1, len(group.prefix))
        with torch.no_grad():
            every = torch.log_softmax(network(torch.tensor([ids])).logits[0], -1).numpy()
        found.append(every[np.arange(first - 1, len(ids) - 1), np.array(ids[first:], np.int64)])
    return found
