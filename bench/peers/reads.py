"""What other engines make of texts and of sentences, as `bench.harness.causal_texts` and `translated_texts` say it.

`folder` is where an engine keeps what it converts the checkpoint to.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.harness.causal_texts import NEW_TOKENS, prompts_of
from bench.harness.text_drift import Read
from bench.peers import generate_ctranslate2, generate_transformers, peer_ctranslate2, score_transformers


def transformers_texts(checkpoint: Path, folder: Path, precision: str, sequences: list[list[int]]) -> Read:
    """Score the sequences one by one, and continue the beginnings of the first."""
    log_probs = score_transformers.score(score_transformers.prepare(checkpoint, folder, precision), sequences)
    model = generate_transformers.prepare(checkpoint, folder, precision)
    return _read(log_probs, generate_transformers.generate(model, prompts_of(sequences), NEW_TOKENS))


def ctranslate2_texts(checkpoint: Path, folder: Path, precision: str, sequences: list[list[int]]) -> Read:
    """Score the sequences, and continue the beginnings of the first."""
    model = generate_ctranslate2.prepare(checkpoint, folder, precision)
    scored = model.generator(model.setting).score_batch(
        [[model.tokens[token_id] for token_id in ids] for ids in sequences],
        max_batch_size=1,  # 4.8.5 refuses batches of Gemma 3
        max_input_length=0,
    )
    continued = generate_ctranslate2.generate(model, prompts_of(sequences), NEW_TOKENS)
    return _read([one.log_probs for one in scored], continued)


def ctranslate2_translations(
    checkpoint: Path, folder: Path, precision: str, sources: list[list[int]], targets: Sequence[tuple[int, ...]]
) -> Read:
    """Score the targets, which end, and translate the sources greedily."""
    model = peer_ctranslate2.prepare(checkpoint, folder, precision)
    greedy = peer_ctranslate2.run(model, sources, beams=1, forced_length=None)
    scored = model.translator.score_batch(
        [[model.tokens[token_id] for token_id in ids] for ids in sources],
        [[model.tokens[token_id] for token_id in ids[:-1]] for ids in targets],  # it adds the end
        max_batch_size=32,
        max_input_length=0,
    )
    end = model.ids[model.eos]
    return _read([one.log_probs for one in scored], [[*ids, end] for ids in greedy])


def _read(log_probs: Sequence[Sequence[float]], greedy: Sequence[Sequence[int]]) -> Read:
    return Read(np.concatenate(log_probs).astype(np.float64), [tuple(ids) for ids in greedy])
