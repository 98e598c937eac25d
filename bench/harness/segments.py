"""The source ids that all engines translate."""

import json
import math
import random
from itertools import islice
from pathlib import Path

from bench.checkpoints.natural_ends import LENGTH_WORDS
from tools.demo.grammar import unseen_bulletins
from worker.text.translation.marian_tokenizer import MarianTokenizer

_SHORTEST, _MEDIAN, _LONGEST = 5, 26, 120  # tokens of mixed segments
_SPREAD = 0.65  # of the logarithm of their lengths


def random_segments(checkpoint: Path, count: int, num_tokens: int, seed: int = 1) -> list[list[int]]:
    """`count` segments of `num_tokens` random ids of the model's vocabulary, the end included."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    special = {config["eos_token_id"], config["pad_token_id"]}
    ids = [token_id for token_id in range(config["vocab_size"]) if token_id not in special]
    rng = random.Random(seed)
    return [[*rng.choices(ids, k=num_tokens - 1), config["eos_token_id"]] for _ in range(count)]


def mixed_segments(checkpoint: Path, count: int, seed: int = 3) -> list[list[int]]:
    """`count` segments of 5 to 120 tokens, for a model whose translations end by themselves: the first token says after
    how many tokens, 0.8 to 1.2 times as many as the source has. Lengths of sentences are about log-normal."""
    words = {int(length): word for length, word in json.loads((checkpoint / LENGTH_WORDS).read_text("utf-8")).items()}
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    special = {config["eos_token_id"], config["pad_token_id"], *words.values()}
    ids = [token_id for token_id in range(config["vocab_size"]) if token_id not in special]
    rng = random.Random(seed)
    segments = []
    for _ in range(count):
        tokens = min(_LONGEST, max(_SHORTEST, round(rng.lognormvariate(math.log(_MEDIAN), _SPREAD))))
        first = words[round(tokens * rng.uniform(0.8, 1.2))]
        segments.append([first, *rng.choices(ids, k=tokens - 2), config["eos_token_id"]])
    return segments


def bulletin_segments(checkpoint: Path, count: int, seed: int = 7) -> list[list[int]]:
    """`count` sentences of unseen weather bulletins, of all lengths, in the order of the text."""
    tokenizer = MarianTokenizer.open(checkpoint)
    bulletins = unseen_bulletins(count, seed=seed)  # more than enough; only as many are drawn as are used
    sentences = (sentence.english for bulletin in bulletins for sentence in bulletin.sentences)
    return [tokenizer.encode(sentence, None) for sentence in islice(sentences, count)]
