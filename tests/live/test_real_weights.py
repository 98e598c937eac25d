"""Models with published weights and real texts: fp32 beside transformers and llama.cpp, and how far int8 is from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("llama_cpp")

from bench.checkpoints.published_texts import published_texts
from bench.harness.causal_texts import log_probs_of, sequences_of
from bench.harness.text_drift import Read, text_drift
from jobs.corpus.messages import Message
from tests.live.greedy_generate import compare
from tests.live.real_weights import BOUNDS, NUM_TEXTS, RealModel
from tests.made_once import folder_of_run
from worker.engine.causal.open import open_causal_model, open_causal_tokenizer, open_chat_tokenizer
from worker.models.checkpoint.gguf_file import GgufFile
from worker.text.causal_tokenizer import CausalTokenizer

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

AWKWARD = [
    "",
    " a",
    "two  spaces,   three \n\n\n and \t tabs",
    "1234567 8.9",
    "雪が降る 🙂👩‍👧 ünï",
    "<table> <h1>x</h1>",
]
CHATS = [
    [Message("user", "Will it snow in the rain?")],
    [Message("system", "Be brief. "), Message("user", " ünï 雪 \n"), Message("assistant", ""), Message("user", "Why?")],
]


@pytest.fixture(scope="module", params=BOUNDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> RealModel:
    return RealModel(request.param, folder_of_run(tmp_path_factory, worker_id) / f"real-{request.param}")


@pytest.fixture(scope="module")
def network(model: RealModel) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(model.checkpoint, attn_implementation="eager").eval()


def scores(folder: Path, sequences: list[list[int]]) -> NDArray[np.float64]:
    return log_probs_of(open_causal_model(folder), sequences)


def of_network(network: Any, sequences: list[list[int]]) -> NDArray[np.float32]:
    found = []
    for ids in sequences:
        with torch.no_grad():
            every = torch.log_softmax(network(torch.tensor([ids])).logits[0], -1).numpy()
        found.append(every[np.arange(len(ids) - 1), ids[1:]])
    return np.concatenate(found)


def test_fp32_gives_the_log_probabilities_of_transformers(model: RealModel, network: Any) -> None:
    sequences = sequences_of(model.fp32, published_texts(4))

    found = scores(model.fp32, sequences)

    np.testing.assert_allclose(found, of_network(network, sequences), rtol=0, atol=1e-3)


def test_fp32_continues_as_transformers_does(model: RealModel, network: Any) -> None:
    prompts = [ids[:16] for ids in sequences_of(model.fp32, published_texts(4))]

    compare(open_causal_model(model.fp32), network, prompts, 16, {})


def test_llama_cpp_gives_the_same_ids_and_log_probabilities(model: RealModel) -> None:
    """The checkpoint is made of its file: its names, its norms and its vocabulary are taken over rightly."""
    theirs, ours = open_causal_tokenizer(model.kept), open_causal_tokenizer(model.fp32)
    for text in (*AWKWARD, *published_texts(60)):
        assert theirs.encode_prompt(text) == ours.encode_prompt(text), text
    sequences = sequences_of(model.fp32, published_texts(4))

    far = 1e-2 if model.name == "gemma3" else 1e-3  # llama.cpp looks its GELU up in a table of float16
    np.testing.assert_allclose(scores(model.kept, sequences), scores(model.fp32, sequences), rtol=0, atol=far)


def test_int8_stays_near_fp32(model: RealModel) -> None:
    sequences = sequences_of(model.fp32, published_texts(NUM_TEXTS[model.name]))
    bound = BOUNDS[model.name]

    found = text_drift(Read(scores(model.int8, sequences), []), Read(scores(model.fp32, sequences), []))

    assert abs(found.change) < bound.change
    assert found.mean < bound.mean
    assert found.worst < bound.worst


def test_the_bits_of_a_weight_are_those_of_the_published_types(model: RealModel) -> None:
    bits = GgufFile.open(model.file).bits_per_weight

    assert bits == pytest.approx({"smollm2": 5.7, "gemma3": 7.4}[model.name], abs=0.1)


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
@pytest.mark.parametrize("messages", CHATS, ids=["short", "long"])
def test_a_chat_has_the_ids_of_transformers(model: RealModel, messages: list[Message]) -> None:
    tokenizer = open_causal_tokenizer(model.fp32)
    assert isinstance(tokenizer, CausalTokenizer)
    chat = open_chat_tokenizer(model.fp32, tokenizer)
    assert chat is not None
    values = [{"role": one.role, "content": one.content} for one in messages]
    theirs = transformers.AutoTokenizer.from_pretrained(model.checkpoint)

    assert chat.encode(messages) == theirs.apply_chat_template(values, add_generation_prompt=True)
