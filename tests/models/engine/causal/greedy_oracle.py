"""The greedy continuation of a prompt by the log-probabilities of every token of the vocabulary: the slow reference."""

from collections.abc import Sequence

from worker.engine.causal.protocol import CausalModel, Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation
from worker.engine.search.continuation_rules import ContinuationRules


def continue_greedily(model: CausalModel, prompt: Sequence[int], count: int) -> tuple[list[int], float]:
    """The most likely ids one after the other, and the sum of their log-probabilities."""
    reader, ids, log_prob = model.new_reader(), list(prompt), 0.0
    for _ in range(count):
        every_token = Group(ids, [[token_id] for token_id in range(model.vocab_size)])
        log_probs = [float(found[0]) for found in read_all(reader, [every_token], RunContext())[0]]
        best = max(range(len(log_probs)), key=log_probs.__getitem__)
        ids.append(best)
        log_prob += log_probs[best]
    return ids[len(prompt) :], log_prob


def generate(
    model: CausalModel,
    prompts: Sequence[Sequence[int]],
    rules: ContinuationRules,
    *,
    batch_size: int = 32,
    **options: bool,
) -> list[Continuation]:
    """The continuation of each prompt, in their order."""
    generator = model.new_generator()
    ended = [
        pair
        for found in generator.generate(prompts, rules, RunContext(), batch_size=batch_size, **options)
        for pair in found
    ]
    assert sorted(index for index, _ in ended) == list(range(len(prompts))), "each prompt is yielded once"
    return [found for _, found in sorted(ended, key=lambda pair: pair[0])]
