"""Pairs of a source and a target to score, as ids and as texts, with a tokenizer for the texts."""

import json
import random
from collections.abc import Sequence
from typing import Any, Self

from jobs.errors import SpecError
from jobs.outcome import Outcome
from jobs.tasks.score import ScoreOptions
from tests.places import GOLDEN
from tests.tiny_models import TinyNative
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.engine.tasks.pair_scoring import PairScorer
from worker.text.translation.sentence_pieces import TargetBeginning, TargetPiece

WANTED = json.loads((GOLDEN / "forced.json").read_text(encoding="utf-8"))

ALONE = ScoreOptions(pairs=True, packing=False)

TOGETHER = ScoreOptions(pairs=True)


class IdTokenizer:
    """A tokenizer whose texts are the ids themselves, such as "7 40"."""

    def __init__(self, eos_id: int) -> None:
        self.eos_id = eos_id

    def for_source(self, language: str) -> Self:
        return self

    def beginning(self, language: str | None) -> TargetBeginning:
        return TargetBeginning()

    def target_prefix(self, language: str | None) -> tuple[int, ...]:
        return ()

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        return [*ids[: max_tokens - 1], self.eos_id] if len(ids) > max_tokens else list(ids)

    def check_language(self, language: str | None) -> None:
        if language not in (None, "fr"):
            raise SpecError(f"no language {language}")

    def encode(self, text: str, language: str | None) -> list[int]:
        return [*([3] if language else []), *map(int, text.split()), self.eos_id]

    def cut_target(self, text: str) -> list[TargetPiece]:
        pieces, stop = [], 0
        for word in text.split():
            pieces.append(TargetPiece(int(word), stop, stop + len(word)))
            stop += len(word) + 1
        return pieces

    def target_piece(self, piece_id: int) -> str:
        return f"piece {piece_id}"


def id_pairs(family: str) -> list[IdPair]:
    return [IdPair(pair["source"], pair["target"]) for pair in WANTED[family]]


def run(model: Seq2SeqModel, pairs: Sequence[IdPair]) -> list[Any]:
    """Log-probabilities of each pair, in this order; all pairs are scored in one batch."""
    order = sorted(range(len(pairs)), key=lambda place: -len(pairs[place].source))
    found = dict(zip(order, model.new_scorer().log_probs([pairs[place] for place in order], RunContext()), strict=True))
    return [found[place] for place in range(len(pairs))]


def texts_of(pairs: Sequence[IdPair]) -> list[str]:
    """The pairs as texts for `IdTokenizer`."""
    return [
        json.dumps({"source": " ".join(map(str, pair.source[:-1])), "target": " ".join(map(str, pair.target[:-1]))})
        for pair in pairs
    ]


def score(model: Seq2SeqModel, tokenizer: Any, texts: Sequence[str], options: ScoreOptions = TOGETHER) -> list[Outcome]:
    return PairScorer(model, tokenizer).score(texts, options, RunContext()).outcomes


def as_text(source: str, target: str) -> str:
    return json.dumps({"source": source, "target": target}, ensure_ascii=False)


def random_pairs(kv: TinyNative, count: int, seed: int) -> list[IdPair]:
    """Pairs of random sources and targets of independent lengths."""
    sources, rng = kv.draw_sources(2 * count, seed=seed), random.Random(seed)
    rng.shuffle(sources)
    return [IdPair(source, target) for source, target in zip(sources[:count], sources[count:], strict=True)]
