"""Causal models freshly exported with Optimum: log-probabilities per token, compared with transformers.

The default run uses graphs that are written node by node (tests/causal_exports.py); this suite finds out when
another version of transformers, Optimum or onnxruntime gives other results.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
exporters = pytest.importorskip("optimum.exporters.onnx")

from tests.live.greedy_generate import compare, draw_prompts
from worker.engine.causal.exported import reader as exported_reader
from worker.engine.causal.exported.model import ExportedCausal
from worker.engine.causal.protocol import Group
from worker.engine.runtime.run_context import RunContext

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

VOCAB, POSITIONS = 97, 64
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.3,  # large enough that every token of the context matters
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}


def build(family: str) -> Any:
    torch.manual_seed(7)
    configs = {
        "llama": lambda: transformers.LlamaConfig(num_key_value_heads=4, **SIZES),
        "mistral": lambda: transformers.MistralConfig(num_key_value_heads=2, sliding_window=8, **SIZES),
        "qwen2": lambda: transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, **SIZES),
        "gpt2": lambda: transformers.GPT2Config(initializer_range=0.3, bos_token_id=1, eos_token_id=2, **GPT2),
    }
    return transformers.AutoModelForCausalLM.from_config(configs[family](), attn_implementation="eager").eval()


@dataclass(frozen=True)
class Family:
    """A model in torch, its two exports, the sequences to read, and their log-probabilities in transformers."""

    name: str
    checkpoint: Path
    folder: Callable[[str], Path]
    groups: list[Group]
    expected: list[list[np.ndarray]]


@pytest.fixture(scope="module", params=["llama", "mistral", "qwen2", "gpt2"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    torch.set_num_threads(1)
    model, folders = build(request.param), {}
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(checkpoint)

    def folder(task: str) -> Path:
        if task not in folders:
            folders[task] = tmp_path_factory.mktemp(task)
            exporters.main_export(str(checkpoint), folders[task], task=task, do_validation=False)
        return folders[task]

    rng = random.Random(7)

    def ids(count: int) -> list[int]:
        return rng.choices(range(VOCAB), k=count)

    groups = [Group([], [ids(count)]) for count in (1, 2, 9, 10, 30, POSITIONS)]
    groups += [Group([1], [ids(count)]) for count in (1, 30, POSITIONS - 1)]
    groups += [Group(ids(length), [ids(count) for count in (1, 5, 6, 6, 20)]) for length in (3, 40)]
    expected = []
    for group in groups:
        found = []
        for suffix in group.suffixes:
            sequence = torch.tensor([[*group.prefix, *suffix]])
            with torch.no_grad():
                log_probs = model(sequence).logits[0, :-1].double().log_softmax(-1)
            chosen = log_probs.gather(1, sequence[0, 1:, None])[:, 0].numpy()
            found.append(chosen[max(len(group.prefix) - 1, 0) :])
        expected.append(found)
    return Family(request.param, checkpoint, folder, groups, expected)


@pytest.mark.parametrize("task", ["text-generation-with-past", "text-generation"])
def test_every_way_to_read_an_export_gives_the_log_probs_of_transformers(
    family: Family, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ExportedCausal.open(family.folder(task))
    has_past = task.endswith("past")
    assert (model.layout.cache is not None, model.capabilities.extends_batches) == (has_past, has_past)
    assert model.capabilities.pads
    if model.layout.cache:
        assert model.layout.cache.num_heads == (2 if family.name in ("mistral", "qwen2") else 4)
    assert (model.max_positions, model.vocab_size) == (POSITIONS, VOCAB)

    for tokens in (512, 7):  # 512: batches and a shared prefix; 7: pieces that extend the cache
        monkeypatch.setattr(exported_reader, "MAX_TOKENS", tokens)
        monkeypatch.setattr(exported_reader, "MIN_PIECE", tokens)
        for is_packed in (True, False):
            reader = model.new_reader(is_packed=is_packed)
            found = dict(reader.read(family.groups, RunContext()))
            for index, wanted in enumerate(family.expected):
                for one, other in zip(found[index], wanted, strict=True):
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("task", ["text-generation-with-past", "text-generation"])
def test_prompts_are_continued_as_by_transformers(family: Family, task: str) -> None:
    network = transformers.AutoModelForCausalLM.from_pretrained(family.checkpoint, attn_implementation="eager").eval()

    compare(ExportedCausal.open(family.folder(task)), network, draw_prompts(VOCAB, 30), 8, {})
