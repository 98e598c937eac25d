"""Continuations of transformers' greedy `generate`, and those of an opened model beside them."""

import dataclasses
import random
from typing import Any

import pytest
import torch

from tests.models.engine.causal.greedy_oracle import generate
from worker.engine.causal.protocol import CausalModel
from worker.engine.search.continuation_rules import read_continuation_rules


def expected(
    network: Any, prompts: list[list[int]], count: int, settings: dict[str, Any]
) -> list[tuple[list[int], float]]:
    """The ids that transformers generates of each prompt alone, and the sum of their log-probabilities in the model."""
    found = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            whole = network.generate(
                ids,
                attention_mask=torch.ones_like(ids),  # else each id that is the padding's would be masked
                do_sample=False,
                num_beams=1,
                max_new_tokens=count,
                pad_token_id=0,
                **settings,
            )[0]
            log_probs = torch.log_softmax(network(whole[None]).logits[0].double(), -1)
        new = whole[len(prompt) :]
        places = torch.arange(len(prompt) - 1, len(whole) - 1)
        found.append((new.tolist(), float(log_probs[places, new].sum())))
    return found


def compare(model: CausalModel, network: Any, prompts: list[list[int]], count: int, settings: dict[str, Any]) -> None:
    rules = read_continuation_rules({}, {"eos_token_id": None, **settings}, vocab_size=model.vocab_size)
    found = generate(model, prompts, dataclasses.replace(rules, max_new_tokens=count), batch_size=4)
    network.generation_config.eos_token_id = None
    for one, (ids, log_prob) in zip(found, expected(network, prompts, count, settings), strict=True):
        assert list(one.ids) == ids
        assert one.log_prob == pytest.approx(log_prob, abs=1e-3)


def draw_prompts(vocab_size: int, longest: int) -> list[list[int]]:
    rng = random.Random(11)
    beginning = rng.choices(range(vocab_size), k=longest // 2)
    alone = [rng.choices(range(vocab_size), k=count) for count in (1, 2, 7, 7, longest)]
    return [*alone, *(beginning + rng.choices(range(vocab_size), k=count) for count in (1, 4, 9, 9))]
