"""Qwen3-Reranker's rule with a tiny random network: the prompt, the softmax over two logits, what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.outcome import Flag, Ranking
from jobs.tasks.rerank import Method, RerankOptions
from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from worker.engine.causal.native.model import NativeCausal
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.yes_no_prompt import BODY, YesNoPrompt
from worker.engine.tasks.rerank.yes_no_reranking import YesNoReranker
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.text.causal_tokenizer import CausalTokenizer

QUERY, TEXTS = "where is the rain?", ["rain in the north", "snow <|im_end|>", "rain in the north", "the wind " * 20]
POSITIONS = 640


def add_answers(checkpoint: Path) -> None:
    """Give the tokenizer the tokens yes, no, <|im_start|> and <|im_end|>."""
    file = checkpoint / "tokenizer.json"
    description = json.loads(file.read_text())
    model, added = description["model"], description["added_tokens"]
    for one, other in (("y", "e"), ("ye", "s"), ("n", "o")):
        model["vocab"][one + other] = len(model["vocab"])
        model["merges"].append([one, other])
    for content in ("<|im_start|>", "<|im_end|>"):
        added.append({**added[0], "id": len(model["vocab"]) + len(added) - 1, "content": content})
    file.write_text(json.dumps(description))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yes-no") / "checkpoint"
    write_causal_checkpoint(folder, "qwen3", vocab_size=300, max_positions=POSITIONS, seed=4)
    add_answers(folder)
    return folder


@pytest.fixture(scope="module")
def reranker(checkpoint: Path) -> YesNoReranker:
    model = NativeCausal.open(write_kv_model(checkpoint, checkpoint.parent / "kv"))
    return YesNoReranker(model, CausalTokenizer.open(checkpoint))


def rerank(reranker: YesNoReranker, *texts: str, **options: Any) -> Ranking:
    payload = {"query": QUERY, "candidates": [{"id": f"d{place}", "text": text} for place, text in enumerate(texts)]}
    asked = RerankOptions(method=Method.YES_NO, **options)
    (outcome,) = reranker.rerank([json.dumps(payload)], asked, RunContext()).outcomes
    assert isinstance(outcome, Ranking)
    return outcome


def test_the_score_is_the_softmax_over_the_logits_of_yes_and_no(checkpoint: Path, reranker: YesNoReranker) -> None:
    tokenizer, reference = CausalTokenizer.open(checkpoint), NumpyCausal.open(checkpoint)
    prompt = YesNoPrompt(tokenizer, BODY, POSITIONS)

    ranking = rerank(reranker, *TEXTS)

    found = {one.id: one.score for one in ranking.candidates}
    for place, text in enumerate(TEXTS):
        ids = prompt.make(QUERY, text).ids
        yes, no = (log_probs[-1] for log_probs in reference.log_probs([[*ids, prompt.yes], [*ids, prompt.no]]))
        assert found[f"d{place}"] == pytest.approx(1 / (1 + math.exp(no - yes)), abs=1e-5)
    order = [(one.score, one.id) for one in ranking.candidates]
    assert order == sorted(order, key=lambda one: (-(one[0] or 0), one[1]))
    assert found["d0"] == found["d2"]  # the same text
    assert len({round(score or 0, 6) for score in found.values()}) == 3
    assert ranking.flags == ()


def test_a_candidate_gets_beside_others_what_it_gets_alone(reranker: YesNoReranker) -> None:
    together = {one.id: one.score for one in rerank(reranker, *TEXTS).candidates}

    for place, text in enumerate(TEXTS):
        (alone,) = rerank(reranker, text).candidates
        assert alone.score == pytest.approx(together[f"d{place}"], abs=1e-6)


def test_special_tokens_of_the_frame_are_special_and_those_of_a_text_are_not(checkpoint: Path) -> None:
    tokenizer = CausalTokenizer.open(checkpoint)
    end = next(token for token, name in tokenizer._special.items() if name == "<|im_end|>")

    ids = YesNoPrompt(tokenizer, BODY, POSITIONS).make("<|im_end|>", "{query} <|im_end|>").ids

    assert list(ids).count(end) == 2  # of the system, and of the user
    assert "{query}" in tokenizer.decode(ids)  # a placeholder in a document is plain text


def test_a_document_that_is_too_long_loses_its_end(checkpoint: Path, reranker: YesNoReranker) -> None:
    prompt = YesNoPrompt(CausalTokenizer.open(checkpoint), BODY, POSITIONS)

    ranking = rerank(reranker, "snow " * 400)

    assert (ranking.flags, ranking.num_tokens) == ((Flag.TRUNCATED,), POSITIONS)
    assert prompt.make(QUERY, "snow " * 400).ids[-8:] == prompt.make(QUERY, "rain").ids[-8:]  # the frame stays


def test_a_length_without_room_for_the_texts_is_refused(reranker: YesNoReranker) -> None:
    with pytest.raises(SpecError, match=r"yes-no .*tokens.*--max-length"):
        rerank(reranker, "rain", max_length=20)


def test_a_tokenizer_without_the_tokens_of_the_prompt_is_refused(tmp_path: Path) -> None:
    write_causal_checkpoint(tmp_path, "qwen3")

    with pytest.raises(SpecError, match=r"<\|im_start\|>.*Qwen3-Reranker"):
        YesNoPrompt(CausalTokenizer.open(tmp_path), BODY, POSITIONS)


def test_a_template_takes_the_place_of_the_users_message(checkpoint: Path, reranker: YesNoReranker) -> None:
    own = rerank(reranker, *TEXTS, template="{document} | {query}?")

    assert own != rerank(reranker, *TEXTS)
    with pytest.raises(SpecError, match=r"\{query\} and \{document\}"):
        RerankOptions(method=Method.YES_NO, template="{document}")
