"""The source ids that all engines translate."""

import json
import random
from itertools import islice
from pathlib import Path

from worker.bulletins.grammar import unseen_bulletins
from worker.text.marian_tokenizer import MarianTokenizer


def random_segments(checkpoint: Path, count: int, num_tokens: int, seed: int = 1) -> list[list[int]]:
    """`count` segments of `num_tokens` random ids of the model's vocabulary, the end included."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    special = {config["eos_token_id"], config["pad_token_id"]}
    ids = [token_id for token_id in range(config["vocab_size"]) if token_id not in special]
    rng = random.Random(seed)
    return [[*rng.choices(ids, k=num_tokens - 1), config["eos_token_id"]] for _ in range(count)]


def bulletin_segments(checkpoint: Path, count: int, seed: int = 7) -> list[list[int]]:
    """`count` sentences of unseen weather bulletins, of all lengths, in the order of the text."""
    tokenizer = MarianTokenizer.open(checkpoint)
    bulletins = unseen_bulletins(count, seed=seed)  # more than enough; only as many are drawn as are used
    sentences = (sentence.english for bulletin in bulletins for sentence in bulletin.sentences)
    return [tokenizer.encode(sentence, None) for sentence in islice(sentences, count)]
