"""Translations that are drawn, and translations that begin with a given text."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.errors import SpecError
from jobs.outcome import Translation
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.translate import TranslateOptions
from tests.models.engine.tasks.texts import DictMemory, WordTokenizer, one, translate
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import SegmentRules
from worker.engine.search.sampling import Sampling
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.protocol import decode_all
from worker.engine.tasks.translation import Translator
from worker.graphs.precision import Precision

TEXTS = ["It will rain in Oxford on Monday. The wind is cold.", "Strong wind will hit Oxford.", "The wind is cold."]
DRAWN = TranslateOptions(temperature=1.0, n_best=3, seed=7)
NUM_DRAWS = 3000


@pytest.fixture(params=["native", "native int8", "export"])
def model(request: pytest.FixtureRequest, tiny: Any, open_kv: Any) -> Any:
    match request.param:
        case "native":
            return open_kv().model
        case "native int8":
            return open_kv("tiny-swish-tied", Precision.INT8).model
        case _:
            return tiny.model


@pytest.fixture
def demo_translator(demo: SimpleNamespace) -> Translator:
    return Translator(demo.model, demo.tokenizer)


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_samples_have_the_distribution_of_the_models_softmax(model: Any, temperature: float) -> None:
    source = [9, 3, 21, 0]
    rules = dataclasses.replace(
        model.generation,
        num_beams=1,
        max_new_tokens=1,
        forced_eos_id=None,
        suppressed_ids=(),
        sampling=Sampling(temperature),
        segments=tuple(SegmentRules(stream=(sample, *source)) for sample in range(NUM_DRAWS)),
    )
    scorer = model.new_scorer()
    ids = np.flatnonzero(scorer.has_ids(np.arange(60))).tolist()
    (log_probs,) = np.array(scorer.log_probs([IdPair(source, [token]) for token in ids], RunContext())).T

    drawn = decode_all(model.new_decoder(), [source] * NUM_DRAWS, rules, RunContext(), batch_size=200)

    counts = np.bincount([hypothesis.ids[0] for (hypothesis,) in drawn], minlength=60)[ids]
    shares = np.exp(log_probs / temperature) / np.exp(log_probs / temperature).sum()
    expected = NUM_DRAWS * shares
    common = expected >= 5
    square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    freedom = np.count_nonzero(common) - 1
    assert freedom > 5
    assert square < freedom + 4 * math.sqrt(2 * freedom), "chi-square, four standard deviations"
    of_model = dict(zip(ids, log_probs.tolist(), strict=True))
    for (hypothesis,) in drawn[:50]:
        assert hypothesis.log_prob == pytest.approx(of_model[hypothesis.ids[0]], abs=0.05), "without the temperature"


def test_a_document_gets_the_same_samples_in_any_batch(demo_translator: Translator) -> None:
    together = translate(demo_translator, TEXTS, dataclasses.replace(DRAWN, batch_size=5)).outcomes

    for text, outcome in zip(TEXTS, together, strict=True):
        alone = one(translate(demo_translator, [text], dataclasses.replace(DRAWN, reuse=False)))
        assert isinstance(outcome, Translation)
        assert [each.text for each in outcome.alternatives] == [each.text for each in alone.alternatives]
        assert outcome.text == outcome.alternatives[0].text, "in the order in which they are drawn"


@pytest.mark.parametrize("cache", ["on", "off", "hybrid:2"])
def test_the_cache_changes_no_sample(tiny: Any, cache: str) -> None:
    translator = Translator(tiny.model, WordTokenizer())
    options = dataclasses.replace(DRAWN, max_new_tokens=8)

    wanted = [one(translate(translator, [text], options)).alternatives for text in TEXTS]
    found = translate(translator, TEXTS, dataclasses.replace(options, cache=CachePolicy.parse(cache))).outcomes

    assert [[each.text for each in some] for some in wanted] == [
        [each.text for each in outcome.alternatives] for outcome in found if isinstance(outcome, Translation)
    ]


def test_another_seed_gives_other_samples_and_more_samples_begin_with_the_same(demo_translator: Translator) -> None:
    def texts(**changes: Any) -> list[str]:
        (outcome,) = translate(demo_translator, TEXTS[:1], dataclasses.replace(DRAWN, **changes)).outcomes
        assert isinstance(outcome, Translation)
        return [each.text for each in outcome.alternatives]

    assert texts() == texts(n_best=6)[:3]
    assert texts() != texts(seed=8)


def test_the_coldest_samples_and_those_of_one_token_are_the_greedy_translation(demo_translator: Translator) -> None:
    greedy = one(translate(demo_translator, TEXTS[:1], TranslateOptions(beam_size=1)))

    for options in (TranslateOptions(temperature=1e-6), TranslateOptions(temperature=2.0, top_k=1)):
        found = one(translate(demo_translator, TEXTS[:1], options))
        assert found.text == greedy.text
        assert found.log_prob == pytest.approx(greedy.log_prob, abs=1e-3)


def test_samples_of_a_seed_are_learned_and_found_again(demo_translator: Translator) -> None:
    memory = DictMemory()
    first = demo_translator.translate(TEXTS, DRAWN, RunContext(memory=memory))
    memory.update(first.learned)

    again = demo_translator.translate(TEXTS, DRAWN, RunContext(memory=memory))

    assert not again.learned
    for before, after in zip(first.outcomes, again.outcomes, strict=True):
        assert isinstance(before, Translation)
        assert isinstance(after, Translation)
        assert before.alternatives == after.alternatives


def test_beams_and_samples_exclude_each_other() -> None:
    with pytest.raises(SpecError, match="beam_size"):
        TranslateOptions(temperature=1.0, beam_size=4)
    with pytest.raises(SpecError, match="top_k"):
        TranslateOptions(top_k=4)


@pytest.mark.parametrize("options", [TranslateOptions(beam_size=1), TranslateOptions(beam_size=4), DRAWN])
def test_a_translation_begins_with_its_prefix_and_no_other_does(
    demo_translator: Translator, options: TranslateOptions
) -> None:
    memory = DictMemory()
    prefixes = ["周一奥福德", None, "强风"]
    for _ in range(2):
        answers = demo_translator.translate(TEXTS, options, RunContext(memory=memory), None, prefixes)
        memory.update(answers.learned)
        for text, prefix, outcome in zip(TEXTS, prefixes, answers.outcomes, strict=True):
            assert isinstance(outcome, Translation)
            assert all(each.text.startswith(prefix or "") for each in (outcome, *outcome.alternatives))
            alone = demo_translator.translate([text], options, RunContext(), None, [prefix]).outcomes[0]
            assert isinstance(alone, Translation)
            assert outcome.text == alone.text
    assert not answers.learned
    (plain,) = demo_translator.translate(TEXTS[2:], options, RunContext()).outcomes
    assert isinstance(plain, Translation)
    assert not plain.text.startswith("强风")


def test_the_model_s_own_beginning_as_a_prefix_changes_nothing(demo_translator: Translator) -> None:
    options = TranslateOptions(beam_size=1)
    text = "Rain will fall in Ashford on Monday."
    plain = one(translate(demo_translator, [text], options))

    found = demo_translator.translate([text], options, RunContext(), None, [plain.text[:4]]).outcomes[0]

    assert isinstance(found, Translation)
    assert found.text == plain.text
    assert demo_translator.forced_prefix("Größe") is None
