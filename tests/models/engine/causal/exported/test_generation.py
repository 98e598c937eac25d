"""An exported graph continues a prompt as it does alone, however many rows it allows in one call."""

from pathlib import Path

import numpy as np
import pytest

from jobs.errors import SpecError
from jobs.tasks.shared_options import CachePolicy
from tests.causal_exports import POSITIONS, VOCAB
from tests.models.engine.causal.exported.layouts import LAYOUTS, MODELS, open_export
from tests.models.engine.causal.greedy_oracle import continue_greedily, generate
from worker.engine.causal.exported import generation_rows
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

RULES = ContinuationRules(max_new_tokens=6, eos_ids=(3,))


def prompts() -> list[list[int]]:
    """Of many lengths, some equal ones among them; some begin alike."""
    rng = np.random.default_rng(2)

    def draw(count: int) -> list[int]:
        return [int(continuation) for continuation in rng.integers(0, VOCAB, count)]

    alone = [draw(count) for count in (1, 9, 9, 2, 20, 9, 33, 1, POSITIONS)]
    beginning = draw(POSITIONS - 12)
    return [*alone, *(beginning + draw(count) for count in (1, 4, 4, 11))]


def test_every_layout_takes_the_most_likely_token_again_and_again(layout: str) -> None:
    model = MODELS[layout]
    some = [prompts()[index] for index in (0, 4, 10)]

    found = generate(model, some, ContinuationRules(max_new_tokens=2))

    for prompt, continuation in zip(some, found, strict=True):
        ids, log_prob = continue_greedily(model, prompt, 2)
        assert list(continuation.ids) == ids
        assert continuation.log_prob == pytest.approx(
            log_prob, abs=1e-3 if LAYOUTS[layout].dtype is np.float32 else 0.1
        )


def test_a_batch_gives_each_prompt_what_it_gets_alone(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and without a cache; float16 sums in another order may find another best token."""
    model = MODELS[layout]
    whole = model.new_generator(CachePolicy("off"))
    alone = [next(iter(whole.generate([prompt], RULES, RunContext(), batch_size=1)))[0][1] for prompt in prompts()]
    monkeypatch.setattr(generation_rows, "MAX_TOKENS", 16)  # long prompts are read in pieces

    for batch_size in (3, 32):
        found = generate(model, prompts(), RULES, batch_size=batch_size)
        same = [continuation.ids == expected.ids for continuation, expected in zip(found, alone, strict=True)]
        if LAYOUTS[layout].dtype is np.float32:
            assert all(same)
        assert sum(same) >= len(same) - 1


def test_a_shared_prefix_is_read_once_where_the_graph_can_extend_it(tmp_path: Path) -> None:
    found = generate(open_export(tmp_path, LAYOUTS["optimum"]), prompts(), RULES)

    assert sorted(continuation.num_shared for continuation in found[-4:]) == [0] + [POSITIONS - 12] * 3


def test_a_cache_that_the_graph_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--cache auto or off"):
        open_export(tmp_path, LAYOUTS["optimum, no past"]).new_generator(CachePolicy("on"))
