"""Continuing texts with the bundled language model: what comes out of a document, whatever comes with it."""

import json
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.outcome import Failed, Finish, Flag, Generation
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.native.model import NativeCausal
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.generation import PromptContinuer
from worker.models.registry import BUNDLED, DEFAULT_CAUSAL
from worker.text.causal_tokenizer import CausalTokenizer

TEXTS = ["Snow will", "Winds from the", "Snow will", "Tomorrow in the north"]


@pytest.fixture(scope="module")
def continuer() -> PromptContinuer:
    folder = BUNDLED[DEFAULT_CAUSAL]
    return PromptContinuer(NativeCausal.open(folder), CausalTokenizer.open(folder))


def run(continuer: PromptContinuer, texts: list[str], **options: Any) -> list[Any]:
    return continuer.generate(texts, GenerateOptions(**options), RunContext()).outcomes


def test_a_text_is_continued_until_the_model_ends_it(continuer: PromptContinuer) -> None:
    snow, winds, again, _ = run(continuer, TEXTS)

    assert isinstance(snow, Generation)
    assert (snow.finish, snow.text[-1], snow.flags) == (Finish.EOS, ".", ())
    assert snow.text == again.text
    assert (snow.num_shared, again.num_shared) == (0, again.num_prompt_tokens - 1)
    assert snow.text != winds.text
    assert snow.log_prob is not None
    assert snow.log_prob < 0


@pytest.mark.parametrize("options", [{"batch_size": 1}, {"prefix_cache": False}, {"cache": CachePolicy("off")}])
def test_how_it_is_computed_changes_no_text(continuer: PromptContinuer, options: dict[str, Any]) -> None:
    texts = [one.text for one in run(continuer, TEXTS)]

    assert [one.text for one in run(continuer, TEXTS, **options)] == texts


def test_a_continuation_ends_before_its_stop_text(continuer: PromptContinuer) -> None:
    whole = run(continuer, TEXTS)[0].text
    stop = whole[len(whole) // 2 :][:3]

    (stopped,) = run(continuer, TEXTS[:1], stop=("§", stop))

    assert stopped.finish is Finish.STOP
    assert stopped.text == whole[: whole.index(stop)]


def test_a_continuation_that_is_cut_says_so(continuer: PromptContinuer) -> None:
    (cut,) = run(continuer, TEXTS[:1], max_new_tokens=3)

    assert (cut.finish, cut.num_new_tokens, cut.flags) == (Finish.LENGTH, 3, (Flag.TRUNCATED,))


def test_the_same_seed_gives_a_document_the_same_text(continuer: PromptContinuer) -> None:
    def drawn(texts: list[str], seed: int) -> list[str]:
        return [one.text for one in run(continuer, texts, temperature=1.0, top_p=0.95, seed=seed)]

    assert drawn(TEXTS, 1)[1:2] == drawn(TEXTS[1:2], 1)
    assert drawn(TEXTS, 1) != drawn(TEXTS, 2)


def test_a_document_that_cannot_be_continued_fails_alone(continuer: PromptContinuer) -> None:
    empty, long, fine = run(continuer, ["", "snow and rain " * 1_000, "Snow will"])

    assert isinstance(empty, Failed)
    assert (empty.code, "nothing to continue" in empty.message) == ("empty-prompt", True)
    assert isinstance(long, Failed)
    assert long.code == "too-long"
    assert "1,024 positions" in long.message
    assert isinstance(fine, Generation)


def test_a_chat_needs_a_template(continuer: PromptContinuer) -> None:
    with pytest.raises(SpecError, match=r"no chat template.*--chat"):
        run(continuer, [], chat=True)


OWN = [
    {},
    {"max_new_tokens": 3},
    {"temperature": 1, "top_p": 0.95, "top_k": 0, "seed": 5},
    {"temperature": 1, "top_p": 0.95, "top_k": 0, "seed": 6},
    {"temperature": 0, "top_p": 1, "top_k": 0, "max_new_tokens": 9},
    {"stop": ["a"]},
]


def test_a_document_with_options_of_its_own_gets_what_a_job_with_them_gives_it(continuer: PromptContinuer) -> None:
    asked = [(text, own) for own in OWN for text in TEXTS]
    payloads = [json.dumps({"text": text, "options": own}) for text, own in asked]

    found = run(continuer, payloads, own_options=True, max_new_tokens=40)

    for (text, own), outcome in zip(asked, found, strict=True):
        (alone,) = run(continuer, [text], **{"max_new_tokens": 40, **own, "stop": tuple(own.get("stop", ()))})
        assert (outcome.text, outcome.finish, outcome.num_new_tokens) == (
            alone.text,
            alone.finish,
            alone.num_new_tokens,
        )
    assert len({outcome.text for outcome in found[2 * len(TEXTS) : 4 * len(TEXTS)]}) > len(TEXTS)  # by their seeds
