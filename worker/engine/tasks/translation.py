"""
Translating documents.

    texts    segment -> sentences       equal sentences are translated once; words stand in for placeholders
             memory  -> translations    of sentences that were translated before; the others:
             tokenize, sort by length, batch, search, detokenize
                     -> again, with other words, where a translation has lost such a word
             terms   -> translations    of sentences that lack terms of the glossary, once more
             align   -> alignments      of sentences that hold marks
             join    -> outcomes        in the order of the texts, with their marks

Knows: one model, one lane. Does not know: jobs, shards, tables.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from jobs.answers import Answers
from jobs.errors import SpecError
from jobs.outcome import TERMS, Flag, HypothesisSums, Learned, SegmentTranslation
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.translate import TranslateOptions
from jobs.terms.term import Term
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.first_readings import FirstReadings
from worker.engine.runtime.run_context import RunContext, memory_key
from worker.engine.search.generation_config import GenerationConfig, SegmentRules
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.protocol import Decoded, Decoder, Seq2SeqModel
from worker.engine.tasks.document_alignments import with_alignments
from worker.engine.tasks.document_assembly import join_pieces, merge_flags
from worker.engine.tasks.document_sentences import CutTexts, is_finite, rules_of
from worker.engine.tasks.marked_translation import NONE_ALIGNED
from worker.engine.tasks.term_check import terms_of
from worker.engine.tasks.term_decoding import MAX_LOSS, LackingSentence, TermDecoder, may_be_decoded_again
from worker.engine.tasks.word_aligning import WordAligner
from worker.text.loops import has_loop
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer
from worker.text.word_alignment import Alignment

log = logging.getLogger(__name__)

# A sentence with a greater share gets the flag `unknown-source`. Of 150 bulletins with a share of Thai words put in,
# the demo model's translations kept a chrF of 0.93 below 0.1, 0.63 from 0.2, 0.48 from 0.3 and 0.06 from 0.9 on; two
# that have nothing to do with each other have 0.09. So beyond 0.3 more than half is lost (2026-11-25).
MAX_UNKNOWN_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class TranslatedSentences:
    """The translations of some sentences."""

    results: list[SegmentTranslation]  # in the order of the sentences
    computed: Set[int]  # indices of the sentences that the memory did not have
    learned: Learned  # for the memory, by key

    def with_more(self, more: "TranslatedSentences") -> "TranslatedSentences":
        """These, and behind them those of more sentences."""
        return TranslatedSentences(
            results=[*self.results, *more.results],
            computed={*self.computed, *(len(self.results) + index for index in more.computed)},
            learned={**self.learned, **more.learned},
        )


class Translator:
    """One lane's engine for one model: the model is shared, the buffers are not."""

    def __init__(self, model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer, *, max_term_loss: float = MAX_LOSS) -> None:
        self.model = model
        self.decoder: Decoder = model.new_decoder()
        self._policy = CachePolicy()  # of `decoder`: a lane has one decoder at a time, so only one set of buffers
        self._tokenizer = tokenizer
        self._term_decoder = TermDecoder(model, tokenizer, max_term_loss)

    @property
    def buffer_stats(self) -> BufferStats:
        return self.decoder.buffer_stats

    def is_batch_invariant(self, options: TranslateOptions) -> bool:
        """Whether a text gets the same bits whatever other texts it is translated with."""
        return self.model.is_batch_invariant and options.cache == CachePolicy()

    def translate(
        self,
        texts: Sequence[str],
        options: TranslateOptions,
        run: RunContext,
        limits: Sequence[int | None] | None = None,
        prefixes: Sequence[str | None] | None = None,
    ) -> Answers:
        """Translate every text. `limits`: the most characters of each translation, where `options.max_chars` says that
        there are such; None: that many, for all. `prefixes`: the text with which each begins,
        one that `forced_prefix` has ids for; None: that of the options. Raises SpecError if the model cannot do
        what the options ask, Stopped if the run is to end.

        With `options.reuse`, segments in the memory are not translated again, and equal segments are translated once.
        Without it, the memory is neither read nor extended. No text affects the outcome of another.
        """
        self.check(options)
        with run.measure("segment", rows=len(texts)):
            cut = CutTexts.of(texts, options, prefixes or [options.prefix] * len(texts))
            cut = cut.standing_in(self.model.stand_ins, self.imported(cut, options, run), are_shared=options.reuse)
        if options.alignments or cut.has_marks:
            run = replace(run, first_readings=FirstReadings())
        terms = terms_of(cut.without_stand_ins(), options, run.languages)
        found = self.translate_sentences(cut.sentences, options, run, cut.prefixes, terms)
        while (again := cut.tried_again(found.results, are_shared=options.reuse)) is not None:
            done, cut = len(cut.sentences), again
            terms = terms_of(cut.without_stand_ins()[done:], options, run.languages)
            more = self.translate_sentences(cut.sentences[done:], options, run, cut.prefixes[done:], terms)
            found = found.with_more(more)
        pairs = cut.pairs_to_align(found.results)
        alignments = dict(zip(pairs, self.align(pairs, options, run), strict=True)) if pairs else NONE_ALIGNED
        outcomes = [
            cut.outcome(document, found.results, found.computed, alignments, n_best=options.n_best, limit=limit)
            for document, limit in zip(cut.documents, limits or [options.max_chars] * len(texts), strict=True)
        ]
        if options.alignments:
            rules = rules_of(options)
            outcomes = with_alignments(
                *(texts, cut.documents, outcomes, rules, alignments), lambda pairs: self.align(pairs, options, run)
            )
        return Answers(
            outcomes=outcomes,
            learned=found.learned,
            timings=run.timings,
        )

    def translate_sentences(
        self,
        sentences: Sequence[str],
        options: TranslateOptions,
        run: RunContext,
        prefixes: Sequence[str] | None = None,
        terms: Sequence[Sequence[Term]] = (),
    ) -> TranslatedSentences:
        """Translate every sentence as a unit, however many a splitter would find in it. `prefixes`: what the
        translation of each begins with, "" for nothing. `terms`: those that the translation of each should have; none:
        no sentence has some. Raises as `translate`."""
        begin = list(prefixes or [""] * len(sentences))
        tokenizer = self._tokenizer.for_source(options.source_language)
        rules = self.check(options)
        if options.cache != self._policy:
            self.decoder = self.model.new_decoder(options.cache)
            self._policy = options.cache
        keys = [
            memory_key(run.digest, f"\0{prefix}\0{sentence}" if prefix else sentence, tokenizer.source_language)
            for sentence, prefix in zip(sentences, begin, strict=True)
        ]
        units = _recall_imported(sentences, run) if options.reuse else {}
        imported = {
            index: units[sentence]
            for index, (sentence, prefix) in enumerate(zip(sentences, begin, strict=True))
            if sentence in units and units[sentence].startswith(prefix)
        }
        wanted = [key for index, key in enumerate(keys) if index not in imported]
        known = run.memory.recall(wanted) if options.reuse and wanted else {}
        unknown = [index for index, key in enumerate(keys) if key not in known and index not in imported]
        new = self._translate_sentences(
            tokenizer,
            [sentences[index] for index in unknown],
            [tuple(self.forced_prefix(begin[index]) or ()) for index in unknown],
            rules,
            options,
            run,
        )
        computed = dict(zip(unknown, new, strict=True))
        results = [
            _imported(imported[index])
            if index in imported
            else _with_flags(tokenizer, sentence, computed[index] if index in computed else known[key])
            for index, (sentence, key) in enumerate(zip(sentences, keys, strict=True))
        ]
        found = TranslatedSentences(
            results=results,
            computed=computed.keys(),
            learned={keys[index]: results[index] for index in unknown if options.reuse and is_finite(results[index])},
        )
        if not any(terms) or options.temperature:
            return found
        lacking = {
            index: sentence
            for index, result in enumerate(results)
            if terms[index] and may_be_decoded_again(result)
            if (
                sentence := LackingSentence(
                    sentences[index], tuple(self.forced_prefix(begin[index]) or ()), tuple(terms[index]), result
                )
            ).lacking
        }
        return self._with_terms(found, lacking, rules, options, replace(run, part=TERMS)) if lacking else found

    def _with_terms(
        self,
        found: TranslatedSentences,
        lacking: Mapping[int, LackingSentence],
        rules: GenerationConfig,
        options: TranslateOptions,
        run: RunContext,
    ) -> TranslatedSentences:
        """What was found, with other translations of the sentences that lack terms, by their indices. The memory has
        them under keys of their own."""
        tokenizer = self._tokenizer.for_source(options.source_language)
        keys = {
            index: memory_key(
                self._term_decoder.digest(run.digest, sentence), sentence.source, tokenizer.source_language
            )
            for index, sentence in lacking.items()
        }
        known = run.memory.recall(list(keys.values())) if options.reuse else {}
        unknown = [index for index in lacking if keys[index] not in known]
        with run.measure("tokenize", rows=len(unknown)) as counted:
            sources = [tokenizer.encode(lacking[index].source, options.target_language) for index in unknown]
            counted.tokens = sum(map(len, sources))
        new = self._term_decoder.decode(
            [lacking[index] for index in unknown], sources, self.decoder, rules, run, batch_size=options.batch_size
        )
        computed = dict(zip(unknown, new, strict=True))
        results = list(found.results)
        for index, key in keys.items():
            result = computed[index] if index in computed else known[key]
            results[index] = _with_flags(tokenizer, lacking[index].source, result)
        learned: Learned = {keys[index]: results[index] for index in unknown if options.reuse}
        return TranslatedSentences(results, found.computed | computed.keys(), found.learned | learned)

    def imported(self, cut: CutTexts, options: TranslateOptions, run: RunContext) -> Collection[str]:
        """The sentences with placeholders of which somebody imported a translation without them."""
        sentences = cut.with_placeholders() if options.reuse and self.model.stand_ins else []
        return _recall_imported(sentences, run)

    def align(
        self, pairs: Sequence[tuple[str, str]], options: TranslateOptions, run: RunContext
    ) -> list[Alignment | None]:
        """The alignment of each sentence with its translation, word by word, in order; None where the model cannot tell
        it: a sentence that it had to translate in pieces, the graphs of an export. Raises Stopped if the run is to
        end."""
        aligner = WordAligner.of(self.model, self._tokenizer.for_source(options.source_language))
        return [None] * len(pairs) if aligner is None else aligner.align(pairs, options.target_language, run)

    def why_not_into(self, options: TranslateOptions) -> str | None:
        """Why the model does not translate into the target language, a sentence; None: it does."""
        try:
            self._tokenizer.for_source(options.source_language).check_language(options.target_language)
        except SpecError as error:
            return str(error)
        return None

    def check(self, options: TranslateOptions) -> GenerationConfig:
        """The search's settings for these options. Raises SpecError before any work is done."""
        tokenizer = self._tokenizer.for_source(options.source_language)
        tokenizer.check_language(options.target_language)
        self.model.check_cache(options.cache)
        rules = self.model.generation.with_options(options, max_positions=self.model.max_positions)
        beginning = tokenizer.beginning(options.target_language)
        return rules.with_beginning(beginning.start_id, beginning.forced_id)

    def _translate_sentences(
        self,
        tokenizer: Seq2SeqTokenizer,
        sentences: Sequence[str],
        prefixes: Sequence[tuple[int, ...]],
        rules: GenerationConfig,
        options: TranslateOptions,
        run: RunContext,
    ) -> list[SegmentTranslation]:
        """Tokenize, decode and detokenize; the translations are in the order of `sentences`. `prefixes`: the ids with
        which each translation begins. Where tokens are drawn, every sentence is decoded once for each sample."""
        with run.measure("tokenize", rows=len(sentences)) as counted:
            split = [
                tokenizer.split(sentence, options.target_language, self.model.max_positions) for sentence in sentences
            ]
            pieces = [ids for parts in split for ids in parts]
            counted.tokens = sum(map(len, pieces))
        results: dict[int, SegmentTranslation] = {}
        num_samples = options.n_best if options.temperature else 1
        # Any of the beam may be what fits.
        kept = options.n_best if options.max_chars is None or options.temperature else rules.num_beams
        if options.temperature or any(prefixes):
            rules = replace(rules, segments=_segment_rules(split, prefixes, num_samples))
        repeated = [ids for ids in pieces for _ in range(num_samples)]
        decoded = self.decoder.decode(repeated, rules, run, batch_size=options.batch_size)
        for found in decoded if num_samples == 1 else _together(decoded, num_samples):
            num_tokens = sum(len(hypothesis.ids) for _, hypotheses in found for hypothesis in hypotheses[:kept])
            with run.measure("detokenize", rows=len(found), tokens=num_tokens):
                for index, hypotheses in found:
                    result = self._to_text(pieces[index], hypotheses[:kept])
                    results[index] = result if options.max_chars is None else _with_sums(result, hypotheses)
        in_order = iter(results[index] for index in range(len(pieces)))
        return [
            join_pieces([next(in_order) for _ in parts], kept, are_drawn=bool(options.temperature)) for parts in split
        ]

    def forced_prefix(self, prefix: str) -> list[int] | None:
        """The ids of a text with which a translation is to begin; None: the model cannot write it, since its vocabulary
        lacks a part of it or spells it otherwise."""
        ids = [piece.id for piece in self._tokenizer.cut_target(prefix.rstrip())] if prefix else []
        if not ids:
            return ids
        is_writable = self._tokenizer.decode(ids) == prefix.rstrip()
        return ids if is_writable and self.model.new_scorer().has_ids(ids).all() else None

    def _to_text(self, source: Sequence[int], hypotheses: Sequence[Hypothesis]) -> SegmentTranslation:
        best = hypotheses[0]
        return SegmentTranslation(
            # Hypotheses with different ids may give the same text; each is kept: n hypotheses were asked for, and
            # transformers returns n too.
            texts=tuple(self._tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses),
            scores=tuple(hypothesis.score for hypothesis in hypotheses),
            log_prob=best.log_prob,
            num_source_tokens=len(source),
            num_target_tokens=len(best.ids),
            flags=(Flag.TRUNCATED,) if best.truncated else (),
        )


def _with_sums(result: SegmentTranslation, hypotheses: Sequence[Hypothesis]) -> SegmentTranslation:
    """A translation with what is summed of each of its hypotheses, since any of them may become its first."""
    sums = [HypothesisSums(each.log_prob, len(each.ids), each.truncated) for each in hypotheses]
    return replace(result, sums=tuple(sums[: len(result.texts)]))


def _segment_rules(
    split: Sequence[Sequence[Sequence[int]]], prefixes: Sequence[tuple[int, ...]], num_samples: int
) -> tuple[SegmentRules, ...]:
    """The rules of each sample of each piece of each sentence: the first piece has the prefix, and random numbers
    depend on the piece and the number of the sample."""
    return tuple(
        SegmentRules(() if number else prefix, (sample, *ids))
        for parts, prefix in zip(split, prefixes, strict=True)
        for number, ids in enumerate(parts)
        for sample in range(num_samples)
    )


def _together(decoded: Iterable[Decoded], num_samples: int) -> Iterator[Decoded]:
    """The samples of each piece together, as soon as the last one is there, in the order of their numbers."""
    waiting: dict[int, dict[int, Hypothesis]] = {}
    for found in decoded:
        whole: Decoded = []
        for index, hypotheses in found:
            piece, sample = divmod(index, num_samples)
            samples = waiting.setdefault(piece, {})
            samples[sample] = hypotheses[0]
            if len(samples) == num_samples:
                del waiting[piece]
                whole.append((piece, [samples[number] for number in range(num_samples)]))
        if whole:
            yield whole


def _recall_imported(sentences: Sequence[str], run: RunContext) -> dict[str, str]:
    """What people imported for these sentences: it comes before what the model says, or said."""
    return run.memory.recall_imported(sentences, run.languages) if run.languages and sentences else {}


def _imported(text: str) -> SegmentTranslation:
    """A translation that somebody imported: no model read or wrote its tokens."""
    return SegmentTranslation((text,), (0.0,), 0.0, 0, 0, (Flag.IMPORTED,))


def _with_flags(tokenizer: Seq2SeqTokenizer, sentence: str, result: SegmentTranslation) -> SegmentTranslation:
    """A translation with the flags and the unknown share that follow from source and target. An older version may have
    stored it in the memory without them."""
    share = tokenizer.unknown_share(sentence)
    flags = [Flag.REPETITION] if has_loop(result.texts[0], sentence) else []
    if share > MAX_UNKNOWN_SHARE:
        flags.append(Flag.UNKNOWN_SOURCE)
    return replace(result, flags=merge_flags(result.flags, flags), unknown_share=share) if share or flags else result
