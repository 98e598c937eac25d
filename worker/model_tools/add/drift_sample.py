"""
The sample of paragraphs as a model can be measured on it: its sentences, translated by a model in fp32, as pairs to
score; the beginnings of its paragraphs as queries with candidates, scored by cross-encoders.

Knows: which languages of the sample a model reads, and into which it translates. Does not know: what is made of them.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jobs.errors import SpecError
from jobs.system.process import available_cores
from jobs.tasks.shared_options import Timing
from worker.engine.cross_encoder.model import CrossEncoder, PairIds, score_all
from worker.engine.cross_encoder.pair_reader import PairReader, open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all
from worker.model_tools.translation_scores import ScoredTranslation
from worker.text.segments import segment
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

ENGLISH, _OTHER = "en", "de"  # the target language, where there is a choice: English, and of English another
# The source language in the name of a model that has but one: Helsinki-NLP/opus-mt-de-en.
_OPUS_NAME = re.compile(r"opus-mt-(?:tc-(?:base|big)-)?(?P<source>[a-z]{2})-")
_BATCH = 8
_EXTRA_TOKENS = 8  # a translation may be twice as long as its source, and so many tokens longer
_CANDIDATES = 4
_QUERY_TOKENS = 12
_PAIR_TOKENS = 64  # at most


def translate_sample(
    texts: Mapping[str, Sequence[str]], tokenizer: Seq2SeqTokenizer, exact: Seq2SeqModel, name: str, max_tokens: int
) -> tuple[list[ScoredTranslation], int]:
    """Greedy translations of sentences of all languages that the model reads, with about `max_tokens` source tokens
    together, and the number of these languages. `texts`: by language; `name`: of what the model was made from."""
    found: list[ScoredTranslation] = []
    directions = list(_directions(texts, tokenizer, name))
    for source, target in directions:
        sentences = _sentences(texts[source], source, target, tokenizer, exact.max_positions)
        found += _translate(_first(sentences, max_tokens // len(directions)), target, tokenizer, exact)
    return found, len(directions)


def _directions(
    languages: Mapping[str, object], tokenizer: Seq2SeqTokenizer, name: str
) -> Iterator[tuple[str, str | None]]:
    """Each source language that the model reads, with a target language (None: the model has but one)."""
    if not any(_is_named(tokenizer, language) for language in languages):
        named = _OPUS_NAME.search(name)
        languages = {named["source"] if named and named["source"] in languages else ENGLISH: None}
    for language in languages:
        targets = (_OTHER if language == ENGLISH else ENGLISH, None, *sorted(tokenizer.languages)[:1])
        target = next((target for target in targets if _translates(tokenizer, language, target)), ...)
        if target is not ...:
            yield language, target


def _is_named(tokenizer: Seq2SeqTokenizer, language: str) -> bool:
    """Whether the model is told the language of a source, and knows this one."""
    try:
        return tokenizer.for_source(language).source_language is not None
    except SpecError:
        return False


def _translates(tokenizer: Seq2SeqTokenizer, source: str, target: str | None) -> bool:
    try:
        read = tokenizer.for_source(source)
        read.check_language(target)
        read.encode("-", target)
    except SpecError:
        return False
    return True


def _sentences(
    texts: Sequence[str], source: str, target: str | None, tokenizer: Seq2SeqTokenizer, max_tokens: int
) -> list[list[int]]:
    read = tokenizer.for_source(source)
    spans = (span.text for text in texts for span in segment(text, source) if span.translatable)
    return [ids for sentence in spans for ids in read.split(sentence, target, max_tokens)]


def _first(sentences: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
    """The first sentences, with at most `max_tokens` together; at least one sentence."""
    ends = np.cumsum([len(ids) for ids in sentences])
    return list(sentences[: max(1, int(np.searchsorted(ends, max_tokens, "right")))])


def _translate(
    sources: Sequence[list[int]], target: str | None, tokenizer: Seq2SeqTokenizer, exact: Seq2SeqModel
) -> Iterator[ScoredTranslation]:
    beginning = tokenizer.beginning(target)
    longest = max(map(len, sources))
    rules = dataclasses.replace(
        exact.generation,
        num_beams=1,
        max_new_tokens=min(exact.generation.max_new_tokens, 2 * longest + _EXTRA_TOKENS),
    ).with_beginning(beginning.start_id, beginning.forced_id)
    run = RunContext(Stopwatch(Timing.OFF))
    for source, (best, *_) in zip(
        sources, decode_all(exact.new_decoder(), sources, rules, run, batch_size=_BATCH), strict=True
    ):
        num_given = int(rules.forced_bos_id is not None)
        if len(best.ids) > num_given:
            yield ScoredTranslation(IdPair(source, best.ids, rules.start_id), num_given)


def score_queries(folders: Sequence[Path], texts: Sequence[str], max_tokens: int) -> list[list[list[float]]]:
    """The logits of the candidates of each query, by each model in `folders`; all tokenize as the first does. As many
    queries as have about `max_tokens` together, and two at least."""
    models = [CrossEncoder.open(folder, threads=available_cores()) for folder in folders]
    pairs = _pairs(texts, open_pair_reader(folders[0], models[0]), max_tokens)
    logits = [score_all(model.new_scorer(), pairs, RunContext()) for model in models]
    starts = range(0, len(pairs), _CANDIDATES)
    return [[found[start : start + _CANDIDATES] for start in starts] for found in logits]


def _pairs(texts: Sequence[str], reader: PairReader, max_tokens: int) -> list[PairIds]:
    """The beginning of each paragraph with its rest, and with the rests of the next paragraphs."""
    tokens = [reader.tokenizer.encode(text) for text in texts]
    length = min(_PAIR_TOKENS, reader.max_length)
    num_queries = min(len(texts), max(2, max_tokens // (_CANDIDATES * length)))
    joined = (
        reader.tokenizer.join(
            tokens[query][:_QUERY_TOKENS], tokens[(query + candidate) % len(texts)][_QUERY_TOKENS:], length
        )
        for query in range(num_queries)
        for candidate in range(_CANDIDATES)
    )
    return [PairIds(pair.ids, pair.types) for pair in joined]
