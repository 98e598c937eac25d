"""The prompts that all engines continue."""

from pathlib import Path

import numpy as np

from tools.demo.grammar import unseen_bulletins
from worker.text.causal_tokenizer import CausalTokenizer

SHORTEST = 4  # tokens
_SEED = 5


def prompt_lengths(count: int, longest: int) -> list[int]:
    """Lengths of `SHORTEST` to `longest` tokens, spread evenly, in random order: so few of them drawn at random would
    vary too much."""
    spread = np.linspace(min(SHORTEST, longest), longest, count).astype(int)
    return np.random.default_rng(_SEED).permutation(spread).tolist()


def random_prompts(vocab_size: int, count: int, longest: int) -> list[list[int]]:
    """Random ids, the same in every run."""
    rng = np.random.default_rng(_SEED)
    return [rng.integers(0, vocab_size, length).tolist() for length in prompt_lengths(count, longest)]


def bulletin_prompts(checkpoint: Path, count: int, longest: int) -> list[list[int]]:
    """Beginnings of unseen weather bulletins, each followed by others where it is too short."""
    tokenizer = CausalTokenizer.open(checkpoint)
    texts = (bulletin.english for bulletin in unseen_bulletins(count * longest, seed=_SEED))
    prompts = []
    for length in prompt_lengths(count, longest):
        ids: list[int] = []
        while len(ids) < length:
            ids += tokenizer.encode_prompt(f" {next(texts)}" if ids else next(texts))
        prompts.append(ids[:length])
    return prompts
