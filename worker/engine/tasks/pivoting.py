"""
Translating documents through a language in the middle, with both results.

    texts    segment        -> sentences      of the source
             first model    -> sentences      in the middle: of each the best hypothesis
             second model   -> sentences      of the target, with the terms of the source; one whose middle has no
                                              letter passes through
             join, twice    -> outcomes       the text in the middle and the translation, aligned sentence by sentence

The second model translates the first model's translation of a sentence as one sentence, never cut again: so the three
texts stay aligned, a sentence has the same translation in every document, and each model's memory holds the entries
of a job of that model alone. A sentence too long for the second model is translated in pieces, as always.

Knows: two translators of one lane. Does not know: where models come from, jobs, tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobs.answers import Answers
from jobs.outcome import VIA, Flag, Outcome, SegmentTranslation, StepTiming, Translation, Via
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import TranslateOptions
from jobs.terms.term import Term
from worker.engine.runtime.first_readings import FirstReadings
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.document_assembly import merge_flags
from worker.engine.tasks.document_sentences import CutDocument, CutTexts, is_finite
from worker.engine.tasks.marked_translation import Alignments, composed
from worker.engine.tasks.term_check import terms_of
from worker.engine.tasks.translation import TranslatedSentences, Translator
from worker.text.marks.stand_ins import survivors
from worker.text.word_alignment import Alignment


@dataclass(frozen=True, slots=True)
class PivotLeg:
    """One of the two translations."""

    name: str  # of the model, for messages
    translator: Translator
    options: TranslateOptions  # the options that a job of this model alone would have
    digest: bytes  # of this model and its options: part of each key of the memory
    languages: LanguagePair | None = None  # that it translates between, where they are known


def translate_via(
    texts: Sequence[str], first: PivotLeg, second: PivotLeg, run: RunContext, limits: Sequence[int | None] | None = None
) -> Answers:
    """Translate every text with the first model, and that with the second. `limits`: the most characters of each
    translation; None: those of the second's options, for all. Raises SpecError if one of them cannot do
    what its options ask, before any work is done; Stopped if the run is to end.

    No text affects the outcome of another.
    """
    for leg in (first, second):
        leg.translator.check(leg.options)
    to_middle = run.for_digest(first.digest, first.options.timing, first.languages)
    with run.measure("segment", rows=len(texts)):
        cut = CutTexts.of(texts, first.options)
        known = survivors(first.translator.model.stand_ins, second.translator.model.stand_ins)
        settled = first.translator.imported(cut, first.options, to_middle)
        are_shared = first.options.reuse
        cut = cut.standing_in(known, settled, are_shared=are_shared)
    if cut.has_marks:
        kept = FirstReadings()
        run, to_middle = replace(run, first_readings=kept), replace(to_middle, first_readings=kept)
    to_final = replace(run, digest=second.digest, languages=second.languages)
    middle = first.translator.translate_sentences(cut.sentences, first.options, to_middle)
    languages = _languages(first, second)
    terms = terms_of(cut.without_stand_ins(), second.options, languages)
    final = _translate_middle(middle.results, second, to_final, terms)
    while (again := cut.tried_again(middle.results, final.results, are_shared=are_shared)) is not None:
        done, cut = len(cut.sentences), again
        more = first.translator.translate_sentences(cut.sentences[done:], first.options, to_middle)
        middle = middle.with_more(more)
        terms = terms_of(cut.without_stand_ins()[done:], second.options, languages)
        final = final.with_more(_translate_middle(more.results, second, to_final, terms))
    to_align = cut.pairs_to_align(middle.results)
    alignments = _alignments(cut, to_align, (first, to_middle), (second, run), final.results) if to_align else {}
    return Answers(
        outcomes=[
            _outcome(cut, document, (first, middle), (second, final), alignments, limit)
            for document, limit in zip(cut.documents, limits or [second.options.max_chars] * len(texts), strict=True)
        ],
        learned=middle.learned | final.learned,
        timings=[*run.timings, *map(_in_first_leg, to_middle.timings)],
    )


def _languages(first: PivotLeg, second: PivotLeg) -> LanguagePair | None:
    """From the source of the first to the target of the second."""
    if second.languages is None:
        return None
    source = first.languages.source if first.languages else first.options.source_language
    return LanguagePair(source, second.languages.target)


def _translate_middle(
    middle: Sequence[SegmentTranslation], leg: PivotLeg, run: RunContext, terms: Sequence[tuple[Term, ...]]
) -> TranslatedSentences:
    """Translate the best hypothesis of each sentence, with the terms of its source; with `reuse`, equal ones once. The
    indices of the result are those of `middle`."""
    texts = [(result.texts[0], own) for result, own in zip(middle, terms, strict=True)]
    readable = [index for index, result in enumerate(middle) if is_finite(result) and _has_letter(result.texts[0])]
    unique = list(dict.fromkeys(texts[index] for index in readable)) if leg.options.reuse else []
    index_of = {text: number for number, text in enumerate(unique)}
    sentences = unique or [texts[index] for index in readable]
    computed_at = {index: index_of.get(texts[index], number) for number, index in enumerate(readable)}
    found = leg.translator.translate_sentences(
        [text for text, _ in sentences], leg.options, run, terms=[own for _, own in sentences]
    )
    return TranslatedSentences(
        results=[
            found.results[computed_at[index]] if index in computed_at else _passed_through(result)
            for index, result in enumerate(middle)
        ],
        computed={index for index, number in computed_at.items() if number in found.computed},
        learned=found.learned,
    )


def _alignments(
    cut: CutTexts,
    to_middle: Sequence[tuple[str, str]],
    first: tuple[PivotLeg, RunContext],
    second: tuple[PivotLeg, RunContext],
    final: Sequence[SegmentTranslation],
) -> dict[tuple[str, str], Alignment | None]:
    """Of sentences that hold marks: the alignment with their text in the middle, and through it with their
    translation. `to_middle`: the pairs of the first; of a sentence the best one is first."""
    (leg, run), (next_leg, next_run) = first, second
    found = dict(zip(to_middle, leg.translator.align(to_middle, leg.options, run), strict=True))
    best = dict(reversed(to_middle))
    texts = dict(zip(cut.sentences, final, strict=True))
    chains = [(source, middle, text) for source, middle in best.items() for text in texts[source].texts]
    pairs = list(dict.fromkeys((middle, text) for _source, middle, text in chains if text and _has_letter(middle)))
    behind = dict(zip(pairs, next_leg.translator.align(pairs, next_leg.options, next_run), strict=True))
    through = {
        (source, text): composed(found[source, middle], behind.get((middle, text))) for source, middle, text in chains
    }
    return through | found


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _passed_through(middle: SegmentTranslation) -> SegmentTranslation:
    """A sentence that the second model does not get: models hallucinate on punctuation alone."""
    return SegmentTranslation(middle.texts[:1], (0.0,), 0.0, 0, 0, (Flag.PASSED_THROUGH,))


def _outcome(
    cut: CutTexts,
    document: CutDocument,
    first: tuple[PivotLeg, TranslatedSentences],
    second: tuple[PivotLeg, TranslatedSentences],
    alignments: Alignments,
    limit: int | None,
) -> Outcome:
    """The translation of a document with the text in the middle; Failed where either model's numbers are not finite."""
    for leg, found in (first, second):
        if failed := cut.failure(document, found.results, f"{leg.name}'s"):
            return failed
    computed = set(first[1].computed) | set(second[1].computed)
    middle, final = (
        document.joined(
            found.results,
            cut.sentences,
            computed,
            alignments=alignments,
            n_best=leg.options.n_best,
            limit=limit if leg is second[0] else None,
        )
        for leg, found in (first, second)
    )
    return document.checked(_with_middle(final, middle))


def _with_middle(final: Translation, middle: Translation) -> Translation:
    assert middle.log_prob is not None  # of an engine, not of a server
    return replace(
        final,
        num_source_tokens=middle.num_source_tokens,
        unknown_share=middle.unknown_share,
        flags=merge_flags(final.flags, middle.flags),
        via=Via(
            text=middle.text,
            log_prob=middle.log_prob,
            num_target_tokens=middle.num_target_tokens,
            num_source_tokens=final.num_source_tokens,
            segments=tuple((segment.target_start, segment.target_stop) for segment in middle.segments),
        ),
    )


def _in_first_leg(timing: StepTiming) -> StepTiming:
    return replace(timing, phase=timing.phase + VIA)
