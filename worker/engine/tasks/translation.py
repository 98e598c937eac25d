"""
Translating documents: sentences, tokens, known sentences, batches, search, text.

    texts    segment -> sentences       each different one once
             memory  -> known ones      not translated again
             tokenize, sort by length, batch, search, detokenize
             join    -> outcomes        in the order of the texts

Knows: one model, one lane. Does not know: jobs, shards, tables.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from jobs.outcome import Failed, Flag, Outcome, SegmentTranslation
from jobs.spec import CachePolicy, TranslateOptions
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.protocol import Decoder, Seq2SeqModel
from worker.engine.tasks.batch_result import BatchResult
from worker.engine.tasks.document_assembly import join_document, join_pieces, merge_flags, runs_away
from worker.engine.tasks.result_memory import ResultMemory
from worker.engine.tasks.tokenizers import TranslationTokenizer
from worker.text.segments import Span, segment

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """One sentence of a document."""

    place: int  # in the list of all sentences of the call
    is_first: bool  # with that place


@dataclass(frozen=True, slots=True)
class _Document:
    """A text as spans, and where its sentences stand."""

    spans: list[Span]
    sentences: list[_Occurrence]


class Translator:
    """One lane's engine for one model: the model is shared, the buffers are not."""

    def __init__(self, model: Seq2SeqModel, tokenizer: TranslationTokenizer) -> None:
        self.model = model
        self.decoder: Decoder = model.new_decoder()  # the one in use: a lane pays for one set of buffers
        self._policy = CachePolicy()
        self._tokenizer = tokenizer

    @property
    def buffer_stats(self) -> BufferStats:
        """Of the decoder."""
        return self.decoder.buffer_stats

    def translate(
        self,
        texts: Sequence[str],
        options: TranslateOptions,
        *,
        memory: ResultMemory,
        should_stop: Callable[[], bool],
    ) -> BatchResult:
        """Translate every text; raise SpecError where the model cannot do as asked, Stopped where told to stop.

        With `options.reuse`, equal segments are translated once, and those that the memory knows not at all.
        Without, the memory is neither asked nor taught. No text affects the outcome of another.
        """
        rules = self._check(options)
        if options.cache != self._policy:
            self.decoder = self.model.new_decoder(options.cache)
            self._policy = options.cache
        run = RunContext(Stopwatch(options.timing), should_stop)
        with run.measure("segment", rows=len(texts)):
            sentences, documents = _cut(texts, options)
        keys = [_key(memory.digest, sentence) for sentence in sentences]
        known = memory.recall(keys) if options.reuse and keys else {}
        unknown = [place for place, key in enumerate(keys) if key not in known]
        results = self._translate_sentences([sentences[place] for place in unknown], rules, options, run)
        new = dict(zip(unknown, results, strict=True))
        found = [new[place] if place in new else known[key] for place, key in enumerate(keys)]
        return BatchResult(
            outcomes=[_assemble(document, sentences, found, new.keys(), options.n_best) for document in documents],
            learned={keys[place]: result for place, result in new.items() if options.reuse and _is_finite(result)},
            timings=run.timings,
        )

    def _check(self, options: TranslateOptions) -> GenerationConfig:
        """The rules of the search. Raises SpecError before any work is done."""
        self._tokenizer.check_language(options.target_language)
        self.model.check_cache(options.cache)
        return self.model.generation.with_options(options, max_positions=self.model.max_positions)

    def _translate_sentences(
        self,
        sentences: Sequence[str],
        rules: GenerationConfig,
        options: TranslateOptions,
        run: RunContext,
    ) -> list[SegmentTranslation]:
        """Tokenize, run, detokenize; in the order of `sentences`."""
        with run.measure("tokenize", rows=len(sentences)) as counted:
            split = [
                self._tokenizer.split(sentence, options.target_language, self.model.max_positions)
                for sentence in sentences
            ]
            pieces = [ids for parts in split for ids in parts]
            counted.tokens = sum(map(len, pieces))
        run.end_batch()
        results: dict[int, SegmentTranslation] = {}
        for found in self.decoder.decode(pieces, rules, run, batch_size=options.batch_size):
            num_tokens = sum(len(one.ids) for _, hypotheses in found for one in hypotheses[: options.n_best])
            with run.measure("detokenize", rows=len(found), tokens=num_tokens):
                for index, hypotheses in found:
                    results[index] = self._to_text(pieces[index], hypotheses[: options.n_best], rules)
            run.end_batch()
        in_order = iter(results[index] for index in range(len(pieces)))
        return [join_pieces([next(in_order) for _ in parts], options.n_best) for parts in split]

    def _to_text(
        self, source: Sequence[int], hypotheses: Sequence[Hypothesis], rules: GenerationConfig
    ) -> SegmentTranslation:
        best = hypotheses[0]
        spoken = [token_id for token_id in best.ids if token_id != rules.eos_id]
        flags = []
        if best.truncated:
            flags.append(Flag.TRUNCATED)
        if runs_away(spoken) and not runs_away(source[:-1]):  # who repeats himself is translated as he is
            flags.append(Flag.REPETITION)
        return SegmentTranslation(
            # Different ids may say the same text. Each stays: who asks for n hypotheses gets n, as from transformers.
            texts=tuple(self._tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses),
            scores=tuple(hypothesis.score for hypothesis in hypotheses),
            log_prob=best.log_prob,
            num_source_tokens=len(source),
            num_target_tokens=len(best.ids),
            flags=merge_flags(flags),
        )


def _cut(texts: Sequence[str], options: TranslateOptions) -> tuple[list[str], list[_Document]]:
    """All sentences of the call (with `reuse` each different one once), and the documents that they make up."""
    sentences: list[str] = []
    places: dict[str, int] = {}
    documents = []
    for text in texts:
        document = _Document(segment(text, options.source_language), [])
        for span in document.spans:
            if span.translatable:
                place = places.get(span.text) if options.reuse else None
                document.sentences.append(_Occurrence(len(sentences) if place is None else place, place is None))
                if place is None:
                    places[span.text] = len(sentences)
                    sentences.append(span.text)
        documents.append(document)
    return sentences, documents


def _assemble(
    document: _Document, sentences: Sequence[str], found: Sequence[SegmentTranslation], new: Set[int], n_best: int
) -> Outcome:
    for occurrence in document.sentences:
        if not _is_finite(found[occurrence.place]):
            return Failed(
                "non-finite",
                "the model's logits are not finite (NaN or infinity) for the sentence "
                f"{_shorten(sentences[occurrence.place])}",
            )
    return join_document(
        document.spans,
        [found[occurrence.place] for occurrence in document.sentences],
        num_reused=sum(not (occurrence.is_first and occurrence.place in new) for occurrence in document.sentences),
        n_best=n_best,
    )


def _key(memory_digest: bytes, sentence: str) -> bytes:
    return hashlib.sha256(memory_digest + sentence.encode("utf-8", "surrogatepass")).digest()


def _is_finite(result: SegmentTranslation) -> bool:
    return math.isfinite(result.log_prob)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
