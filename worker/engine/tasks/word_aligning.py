"""
Aligning the words of translations with those of their sources, by the attention of the model that translates.

    (source, translation)   tokenize -> ids of both, and where each token stands
                            read the translation with the decoder, all tokens in one call -> weights of attention
                            of tokens -> of words -> links

Which weights are taken was measured when the model was added (`AttentionChoice`).

Knows: one model, one lane. Does not know: where translations come from, documents.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair, make_pair_batches
from worker.engine.seq2seq.protocol import AttentionReader, Seq2SeqModel
from worker.engine.tasks.attention_links import link_equal_numbers, links_of, word_weights, words_covered
from worker.models.manifest import AttentionChoice
from worker.text.translation.sentence_pieces import SourceSpan
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer
from worker.text.word_alignment import Alignment, Spans, words


@dataclass(frozen=True, slots=True)
class _Pair:
    """A sentence and its translation as ids, and where their tokens stand, in characters."""

    ids: IdPair
    source_spans: list[SourceSpan]
    target_spans: list[SourceSpan]  # of the text's tokens
    num_given: int  # of the target's first ids, which are no part of the text


class WordAligner:
    """One lane's aligner for one model. It keeps no buffers between calls."""

    def __init__(self, reader: AttentionReader, tokenizer: Seq2SeqTokenizer, max_positions: int) -> None:
        """`tokenizer`: for the language of the sources."""
        self._reader = reader
        self._tokenizer = tokenizer
        self._max_positions = max_positions

    @classmethod
    def of(cls, model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer) -> "WordAligner | None":
        """The aligner of a model; None where its graphs do not tell the attention, as those of an export."""
        reader = model.new_attention_reader()
        return None if reader is None else cls(reader, tokenizer, model.max_positions)

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        language: str | None,
        run: RunContext,
        choice: AttentionChoice | None = None,
    ) -> list[Alignment | None]:
        """The alignment of each sentence with its translation into `language`, in order; None where one of the two is
        too long for the model to read at once. An alignment depends on nothing but its pair. Raises Stopped between two
        batches. `choice`: the weights to take; None: the model's."""
        choice = choice or self._reader.choice
        with run.measure("tokenize", rows=len(pairs)) as counted:
            read = [self._tokenize(source, target, language) for source, target in pairs]
            fitting = [index for index, pair in enumerate(read) if pair is not None]
            ids = [pair.ids for pair in read if pair is not None]
            counted.tokens = sum(len(pair.source) + len(pair.target) for pair in ids)
        attention = dict(zip(fitting, self._attention(ids, choice, run), strict=True))
        return [
            None if pair is None else _alignment(*texts, pair, attention[index], choice)
            for index, (texts, pair) in enumerate(zip(pairs, read, strict=True))
        ]

    def _tokenize(self, source: str, target: str, language: str | None) -> _Pair | None:
        tokenizer = self._tokenizer
        ids, given, pieces = (
            tokenizer.encode(source, language), tokenizer.target_prefix(language), tokenizer.cut_target(target)
        )  # fmt: skip
        if len(ids) > self._max_positions or len(given) + len(pieces) >= self._max_positions:
            return None
        target_ids = [*given, *(piece.id for piece in pieces), tokenizer.eos_id]
        return _Pair(
            IdPair(ids, target_ids, tokenizer.beginning(language).start_id),
            in_characters(source, tokenizer.source_spans(source, language)),
            in_characters(target, [(piece.start, piece.stop) for piece in pieces]),
            len(given),
        )

    def _attention(self, pairs: Sequence[IdPair], choice: AttentionChoice, run: RunContext) -> list[NDArray[Any]]:
        """The weights of each pair. A batch that does not fit into memory is halved until it does."""
        found: dict[int, NDArray[Any]] = {}
        batches = deque(make_pair_batches(pairs))
        while batches:
            run.raise_if_stopped("batches")
            batch = batches.popleft()
            with halve_on_out_of_memory(len(batch), "pairs") as attempt:
                weights = self._reader.attention([pairs[index] for index in batch], choice.layers, run, choice.head)
                found.update(zip(batch, weights, strict=True))
            if not attempt.fits:
                batches.extendleft((batch[attempt.half :], batch[: attempt.half]))
        return [found[index] for index in range(len(pairs))]


def _alignment(source: str, target: str, pair: _Pair, weights: NDArray[Any], choice: AttentionChoice) -> Alignment:
    """weights (T, S), of all tokens of the pair."""
    source_words, target_words = words(source), words(target)
    first = pair.num_given + choice.reads  # the row of the first token of the text
    weights = weights[first : first + len(pair.target_spans)]
    found = word_weights(
        weights,
        words_covered(pair.source_spans, source_words),
        words_covered(pair.target_spans, target_words),
        len(source_words),
        len(target_words),
        of_head=choice.head is not None,
    )
    link_equal_numbers(found, _texts(source, source_words), _texts(target, target_words))
    return Alignment(source_words, target_words, tuple(links_of(found)), found)


def _texts(text: str, spans: Spans) -> list[str]:
    return [text[start:stop] for start, stop in spans]


def in_characters(text: str, spans: Sequence[SourceSpan]) -> list[SourceSpan]:
    """Spans in UTF-8 bytes as spans in characters: of those that begin within them."""
    if text.isascii():
        return list(spans)
    sizes = [len(character.encode("utf-8", "surrogatepass")) for character in text]
    ends = np.cumsum(sizes)  # of each character, in bytes
    return [None if span is None else tuple(np.searchsorted(ends, span, "right").tolist()) for span in spans]
