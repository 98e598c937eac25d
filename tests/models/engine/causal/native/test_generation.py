"""A continuation depends on its prompt alone: not on other prompts, nor on the rows, calls and buffers that it has."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobs.errors import Stopped
from jobs.outcome import Finish
from jobs.tasks.shared_options import CachePolicy
from tests.models.engine.causal.greedy_oracle import continue_greedily, generate
from tests.models.engine.causal.native.tiny_causal import MAX_POSITIONS, MODELS, VOCAB_SIZE, TinyCausal
from tests.repetition import cover
from worker.engine.causal.continuous_generation import ContinuousGenerator
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.generation_rows import CachedRows
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation
from worker.engine.search.continuation_rules import ContinuationRules, Sampling
from worker.graphs.precision import Precision

RULES = {
    "greedy": ContinuationRules(max_new_tokens=12),
    "ends": ContinuationRules(max_new_tokens=30, eos_ids=tuple(range(0, VOCAB_SIZE, 7))),
    "penalties": ContinuationRules(
        max_new_tokens=12,
        repetition_penalty=1.3,
        no_repeat_ngram_size=2,
        suppressed_ids=(5, 6),
        min_new_tokens=3,
        eos_ids=(1, 2, 3, 4),
    ),
    "sampled": ContinuationRules(max_new_tokens=12, sampling=Sampling(0.8, 0.9, 0, 3)),
}
TIGHT = CallLimits(tokens=13, padded=20, scores=700)  # prompts are cut often, rarely packed, rarely behind one prefix


def prompts() -> list[list[int]]:
    """Of all lengths; many with one of two beginnings, one twice, one as long as the model has positions."""
    rng = np.random.default_rng(5)

    def draw(count: int) -> list[int]:
        return [int(continuation) for continuation in rng.integers(0, VOCAB_SIZE, count)]

    alone = [draw(count) for count in (1, 2, 3, 30, 14, 13, 40, 1, MAX_POSITIONS, MAX_POSITIONS - 3)]
    first, second = draw(50), draw(40)
    shared = [first + draw(count) for count in (1, 2, 20, 9, 9, 30)] + [second + draw(count) for count in (3, 1, 25)]
    return [*alone, *shared, shared[2], first]


@pytest.mark.parametrize("name", MODELS)
def test_a_continuation_is_the_most_likely_token_again_and_again(make: Callable[..., TinyCausal], name: str) -> None:
    model = make(name).model
    some = [prompts()[index] for index in (0, 4, 12)]

    found = generate(model, some, ContinuationRules(max_new_tokens=4))

    for prompt, continuation in zip(some, found, strict=True):
        ids, log_prob = continue_greedily(model, prompt, 4)
        assert list(continuation.ids) == ids
        assert continuation.log_prob == pytest.approx(log_prob, abs=1e-4)


@pytest.mark.parametrize(("name", "rules"), cover(["llama", "mistral, window", "qwen3"], RULES))
def test_a_batch_gives_each_prompt_what_it_gets_alone(make: Callable[..., TinyCausal], name: str, rules: str) -> None:
    """Alone and without a cache, as the reference does it."""
    model, given = make(name).model, RULES[rules]
    alone = [uncached(model, prompt, given) for prompt in prompts()]

    for batch_size in (3, 64):
        assert_same(generate(model, prompts(), given, batch_size=batch_size), alone)
    assert_same(generate(model, prompts(), given, shares_prefixes=False), alone)
    tight = ContinuousGenerator(lambda: CachedRows(model.graphs, TIGHT), model.max_positions)
    assert_same(run(tight, given, batch_size=5), alone)


def test_in_int8_a_row_does_not_depend_on_other_rows(make: Callable[..., TinyCausal]) -> None:
    model = make("llama", Precision.INT8).model
    alone = [generate(model, [prompt], RULES["greedy"])[0] for prompt in prompts()]

    together = generate(model, prompts(), RULES["greedy"])

    same = [continuation.ids == expected.ids for continuation, expected in zip(together, alone, strict=True)]
    assert sum(same) >= len(same) - 1  # in a call of another shape attention sums in another order


def test_prefixes_and_equal_prompts_are_read_once(make: Callable[..., TinyCausal]) -> None:
    found = generate(make("llama").model, prompts(), RULES["greedy"])

    shared = [continuation.num_shared for continuation in found]
    assert shared[:10] == [0] * 10
    assert sorted(shared[10:16]) == [0, 49, 49, 49, 49, 49]  # the last prompt is these 50, and its last is not read
    assert shared[19] == len(prompts()[19]) - 1  # the prompt comes twice


def test_a_continuation_ends_with_the_positions_of_the_model(make: Callable[..., TinyCausal]) -> None:
    found = generate(make("llama").model, prompts(), ContinuationRules())

    for prompt, continuation in zip(prompts(), found, strict=True):
        assert len(prompt) + len(continuation.ids) == MAX_POSITIONS + 1  # the last token is never read
        assert continuation.finish is Finish.LENGTH


def test_a_longer_continuation_begins_like_a_shorter_one(make: Callable[..., TinyCausal]) -> None:
    model = make("qwen2").model
    shorter = generate(model, prompts(), replace(RULES["sampled"], max_new_tokens=4))

    for continuation, expected in zip(generate(model, prompts(), RULES["sampled"]), shorter, strict=True):
        assert continuation.ids[:4] == expected.ids


def test_the_seed_decides_what_is_drawn(make: Callable[..., TinyCausal]) -> None:
    model = make("qwen2").model

    def drawn(seed: int) -> list[tuple[int, ...]]:
        return [
            continuation.ids
            for continuation in generate(model, prompts(), replace(RULES["sampled"], sampling=Sampling(1.0, seed=seed)))
        ]

    assert drawn(1) == drawn(1)
    assert (
        sum(continuation != expected for continuation, expected in zip(drawn(1), drawn(2), strict=True))
        > len(prompts()) // 2
    )


def test_garbage_in_the_buffers_changes_nothing(
    make: Callable[..., TinyCausal], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make("llama").model
    clean = generate(model, prompts(), RULES["greedy"])
    empty = np.empty

    def dirty(shape: Any, *args: Any, **options: Any) -> Any:
        array = empty(shape, *args, **options)
        if array.dtype == np.float32:
            array.fill(np.nan)
        return array

    monkeypatch.setattr("worker.engine.runtime.host_arrays.np.empty", dirty)

    assert_same(generate(model, prompts(), RULES["greedy"]), clean)


def test_buffers_are_kept_for_the_next_prompts(make: Callable[..., TinyCausal]) -> None:
    generator = make("llama").model.new_generator()
    first = run(generator, RULES["greedy"])
    allocations = generator.buffer_stats.allocations

    second = run(generator, RULES["greedy"])

    assert_same(second, first)
    assert generator.buffer_stats.allocations == allocations
    assert generator.buffer_stats.reuses > 0


def test_generating_stops_between_two_calls(make: Callable[..., TinyCausal]) -> None:
    looks = iter([False] * 6 + [True] * 9)
    context = RunContext(should_stop=lambda: next(looks))

    with pytest.raises(Stopped):
        list(make("llama").model.new_generator().generate(prompts(), RULES["greedy"], context, batch_size=4))


def test_every_call_is_timed(make: Callable[..., TinyCausal]) -> None:
    context = RunContext()
    list(make("llama").model.new_generator().generate([[1, 2, 3], [4]], RULES["greedy"], context, batch_size=4))

    steps = [
        (continuation.phase, continuation.step, continuation.rows, continuation.past_length)
        for continuation in context.timings
    ]
    assert steps[:3] == [("prefill", 0, 1, 0), ("decode", 0, 2, 2), ("head", 0, 2, 0)]
    assert steps[-2:] == [("decode", 11, 2, 13), ("head", 11, 2, 0)]


def uncached(model: Any, prompt: list[int], rules: ContinuationRules) -> Continuation:
    generator = model.new_generator(CachePolicy("off"))
    ((_, found),) = next(iter(generator.generate([prompt], rules, RunContext(), batch_size=1)))
    return found


def run(generator: Any, rules: ContinuationRules, batch_size: int = 8) -> list[Continuation]:
    ended = [
        pair for found in generator.generate(prompts(), rules, RunContext(), batch_size=batch_size) for pair in found
    ]
    return [found for _, found in sorted(ended, key=lambda pair: pair[0])]


def assert_same(found: list[Continuation], wanted: list[Continuation]) -> None:
    for continuation, expected in zip(found, wanted, strict=True):
        assert (continuation.ids, continuation.finish) == (expected.ids, expected.finish)
        assert continuation.log_prob == pytest.approx(expected.log_prob, abs=2e-4)
