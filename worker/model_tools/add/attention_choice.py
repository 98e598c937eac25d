"""
Which attention of a translation model tells the words that belong together: measured on its own translations of
made-up sentences, so that a model of any language can be added without a corpus.

What a token depends on is known without attention: the token of the source without which it is least likely (the
prediction difference of Li et al. 2019, "On the Word Alignment from Neural Machine Translation", P19-1124). The
attention that agrees with it at the most tokens is chosen: of a head, of a layer or the mean of all, at the step that
writes a token or at the one that reads it (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
Translation", 2020.emnlp-main.42). Chen et al. choose by the agreement of two models, one for each direction; here
there is one. The agreement of the two directions of one model's attention does not tell the steps apart: it is 0.54 and
0.55 of a model of 3 layers, with error rates of 0.24 and 0.67 (docs/experiments.md).

Among as many candidates as there are heads some agree by chance. So what varies less is tried first, and what comes
later has to be clearly better: the mean of all, a layer, a head. One head is tried before the others: that which
Marian's `--guided-alignment` trains to align, the first of the last layer at the step that writes (Garg et al. 2019,
"Jointly Learning to Align and Translate with Transformer Models", D19-1453; `transformer.h` of Marian).

Known to be short: what a token depends on are the words that carry its sense, and a head that was trained to align
attends to articles and auxiliaries, too. Of a copy of the bundled model with guided alignment it agrees at fewer tokens
than the mean of all, and has half of its error rate (docs/experiments.md). So where the model's card says how it was
trained, that decides.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import SpecError
from jobs.system.process import available_cores
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.seq2seq.batches import IdPair, make_pair_batches
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import AttentionReader, Seq2SeqModel, decode_all
from worker.model_tools.translation_scores import ScoredTranslation, score_translations
from worker.models.manifest import AttentionChoice
from worker.text.translation.sentence_pieces import TargetBeginning
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

_LENGTHS = (14, 10, 6)  # pieces of a sentence
_SENTENCES = 4  # of each length
_EXTRA_TOKENS = 8  # a translation may be twice as long as its source, and so many tokens longer
_CLEARLY = 0.5  # nats: a token that no token of the source makes likelier by as much depends on none
_MIN_TOKENS = 20  # fewer that depend on one tell nothing


@dataclass(frozen=True, slots=True)
class Dependence:
    """A sentence, its translation, and on which tokens of the sentence those of the translation depend."""

    pair: IdPair
    pieces: range  # the ids of the source that are not special
    tokens: NDArray[np.int64]  # of the target, by their places, those that depend on one
    on: NDArray[np.int64]  # (tokens,): on which, by its place among `pieces`


def measure_attention(folder: Path, *, is_guided: bool = False) -> AttentionChoice | None:
    """The choice for the model in `folder`; None where its translations do not depend on their sources, as those of a
    model that was not trained, and for an export. `is_guided`: it is known to be trained with guided alignment, so its
    head is the choice, whatever agrees. Raises ModelError where the model cannot be opened."""
    model, tokenizer = open_seq2seq_model(folder, threads=available_cores()), open_translation_tokenizer(folder)
    reader = model.new_attention_reader()
    if reader is None:
        return None
    measured = [_dependence(model, *translated) for translated in _translations(model, tokenizer)]
    if sum(len(one.tokens) for one in measured) < _MIN_TOKENS:
        return guided_head(reader) if is_guided else None
    return best_choice(reader, measured, is_guided=is_guided)


def guided_head(reader: AttentionReader) -> AttentionChoice:
    """What guided alignment trains, by default: the first head of the last layer, at the step that writes."""
    return AttentionChoice((reader.num_layers - 1,), reads=False, head=0)


def best_choice(reader: AttentionReader, measured: Sequence[Dependence], *, is_guided: bool = False) -> AttentionChoice:
    """The candidate that agrees at the most tokens; but of several kinds, the first that agrees within one standard
    error of the next (Breiman et al. 1984, "Classification and Regression Trees"), of any head within as many as the
    best of so many would be better by chance."""
    pairs = [one.pair for one in measured]
    by_head = [_attention(reader, pairs, layer) for layer in range(reader.num_layers)]  # (N, T, S) of each pair

    def hits_of(choice: AttentionChoice) -> NDArray[np.float64]:
        """(tokens,): 1 where it agrees."""
        heads = slice(None) if choice.head is None else slice(choice.head, choice.head + 1)
        hits = [
            _found(one, sum(by_head[layer][at][heads].sum(axis=0) for layer in choice.layers), choice.reads) == one.on
            for at, one in enumerate(measured)
        ]
        return np.concatenate(hits).astype(np.float64)

    chosen, hits = None, np.zeros(0)
    guided = guided_head(reader)
    kinds = _kinds(reader.num_layers, len(by_head[0][0]), guided)
    for candidates, num_errors in [([guided], 0.0)] if is_guided else kinds:
        best, found = max(((choice, hits_of(choice)) for choice in candidates), key=lambda one: one[1].mean())
        gain = found - hits if chosen else found
        if chosen is None or gain.mean() > num_errors * gain.std() / len(gain) ** 0.5:
            chosen, hits = best, found
    assert chosen is not None
    return dataclasses.replace(chosen, agreement=round(float(hits.mean()), 3))


def _kinds(num_layers: int, num_heads: int, guided: AttentionChoice) -> Iterator[tuple[list[AttentionChoice], float]]:
    """Candidates, and by how many standard errors the best of them has to be better than those before."""
    layers, both = range(num_layers), (False, True)
    yield [AttentionChoice(tuple(layers), reads) for reads in both], 0
    yield [AttentionChoice((layer,), reads) for layer in layers for reads in both], 1
    yield [guided], 1
    heads = [
        AttentionChoice((layer,), reads, head=head) for layer in layers for head in range(num_heads) for reads in both
    ]
    # The highest of m equal candidates is by so many standard errors above them at most, for large m: the expectation
    # of the maximum of m normal variables is below it (Boucheron et al. 2013, "Concentration Inequalities", 2.5).
    yield heads, math.sqrt(2 * math.log(len(heads)))


def _found(one: Dependence, weights: Any, reads: bool) -> NDArray[np.int64]:
    """The tokens of the source with the greatest weights (T, S), for each of the tokens that depend on one."""
    rows = weights[one.tokens + reads, one.pieces.start : one.pieces.stop]
    found: NDArray[np.int64] = rows.argmax(axis=1)
    return found


def _attention(reader: AttentionReader, pairs: Sequence[IdPair], layer: int) -> list[NDArray[np.float32]]:
    found: dict[int, NDArray[np.float32]] = {}
    for batch in make_pair_batches(pairs):
        weights = reader.attention_by_head([pairs[index] for index in batch], layer, RunContext(Stopwatch(Timing.OFF)))
        found.update(zip(batch, weights, strict=True))
    return [found[index] for index in range(len(pairs))]


def _translations(model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer) -> Iterator[tuple[IdPair, int, range]]:
    """Made-up sentences with their greedy translations, the number of ids that are given, and the places of the pieces
    in the source."""
    rng, beginning = Random(0), _beginning(tokenizer)
    empty = tokenizer.draw(rng, 0)
    num_behind = len(empty) - empty.index(tokenizer.eos_id)  # the end, and a language that comes after it
    sources, places = [], []
    for length in _LENGTHS:
        length = max(1, min(length, model.max_positions - 24))  # a prefix may have 20 tokens
        for _ in range(_SENTENCES):
            sources.append(ids := tokenizer.draw(rng, length))
            places.append(range(len(ids) - num_behind - length, len(ids) - num_behind))
    rules = dataclasses.replace(
        model.generation,
        num_beams=1,
        max_new_tokens=min(model.generation.max_new_tokens, 2 * _LENGTHS[0] + _EXTRA_TOKENS),
    ).with_beginning(beginning.start_id, beginning.forced_id)
    num_given = int(rules.forced_bos_id is not None)
    decoded = decode_all(model.new_decoder(), sources, rules, RunContext(Stopwatch(Timing.OFF)), batch_size=None)
    for source, pieces, (best, *_) in zip(sources, places, decoded, strict=True):
        if len(best.ids) > num_given + 1:
            yield IdPair(source, best.ids, rules.start_id), num_given, pieces


def _beginning(tokenizer: Seq2SeqTokenizer) -> TargetBeginning:
    """Of a translation into English; else into the model's only language or the first."""
    for language in ("en", None):
        try:
            return tokenizer.beginning(language)
        except SpecError:
            continue
    return tokenizer.beginning(min(tokenizer.languages))


def _dependence(model: Seq2SeqModel, pair: IdPair, num_given: int, pieces: range) -> Dependence:
    """Score the translation with each piece of the source taken out."""
    sources = [pair.source, *([*pair.source[:at], *pair.source[at + 1 :]] for at in pieces)]
    scored = score_translations(
        model, [ScoredTranslation(dataclasses.replace(pair, source=source), num_given) for source in sources]
    )
    log_probs = np.stack(scored)[:, :-1]  # (1 + pieces, tokens), without the last token, which no step reads
    with np.errstate(invalid="ignore"):
        lost = log_probs[0] - log_probs[1:]  # (pieces, tokens)
    depend = np.flatnonzero(lost.max(axis=0) > _CLEARLY)
    return Dependence(pair, pieces, num_given + depend, lost[:, depend].argmax(axis=0))
