"""Tokens are drawn with the probabilities of transformers' logits processors, in their order."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from worker.engine.search.sampling import Sampling

DRAWS = 20_000


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [
    (1.0, 0, 1.0),
    (0.7, 0, 1.0),
    (1.3, 7, 1.0),
    (1.0, 0, 0.8),
    (0.6, 12, 0.9),
    (2.0, 40, 0.05),
])  # fmt: skip
@pytest.mark.parametrize("spread", [1.0, 6.0])  # of the logits: nearly even, and a few likely tokens
def test_a_token_is_drawn_as_often_as_transformers_processors_say(
    temperature: float, top_k: int, top_p: float, spread: float
) -> None:
    logits = (np.random.default_rng(3).normal(size=200) * spread).astype(np.float32)
    logits[[4, 9]] = -np.inf  # forbidden by a rule
    processors = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(temperature)])
    if top_k:
        processors.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        processors.append(transformers.TopPLogitsWarper(top_p))
    processed = processors(torch.zeros((1, 1), dtype=torch.long), torch.from_numpy(logits)[None].double())
    expected = torch.softmax(processed[0], -1).numpy()

    # Numbers at equal distances are drawn in place of random ones: a probability is their share, exactly.
    numbers = (np.arange(DRAWS) + 0.5) / DRAWS
    drawn = Sampling(temperature, top_p, top_k).draw(np.tile(logits, (DRAWS, 1)), None, numbers)
    shares = np.bincount(drawn, minlength=len(logits)) / DRAWS

    assert np.abs(shares - expected).max() <= 1.01 / DRAWS
    assert not shares[expected == 0].any()
