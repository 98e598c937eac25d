"""
The terms of a job's glossary that texts have, and whether translations hold them: the flag `term-missing`.

    source        "A <b>storm</b> is near."   ->  "A storm is near."   ->  storm: Sturm
    translation   "Ein <b>Sturm</b> naht."    ->  "Ein Sturm naht."    holds Sturm

Segment by segment, in the text as its readers see it, whatever answered: one model, two of a route, or a server, whose
answers are one segment. A segment lacks a term where it is not there at all; how often it stands there is not counted.

Knows: outcomes of documents, glossaries. Does not know: engines, stores.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from jobs.answers import Unanswered
from jobs.outcome import AlignedSegment, Flag, Outcome, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import Placeholders, TranslateOptions
from jobs.terms.glossary import Glossary
from jobs.terms.term import Term
from worker.engine.tasks.document_assembly import merge_flags
from worker.text.marks.finding import EndlessPattern, find
from worker.text.marks.mark import Kind, MarkRules
from worker.text.terms.matcher import TermMatcher, has_target
from worker.text.terms.words import units
from worker.text.translation.language_codes import may_be_same


def with_term_flags(
    texts: Sequence[str],
    outcomes: Sequence[Outcome | Unanswered],
    options: TranslateOptions,
    languages: LanguagePair | None,
) -> list[Outcome | Unanswered]:
    """The outcomes of texts, with the flag where a segment lacks a term. The glossaries of `options` have their
    terms."""
    matcher = _matcher(options.no_translate, options.glossary, languages, options.glossary_subset)
    rules = MarkRules.of(options.markup, options.placeholders == Placeholders.AUTO, options.keep)
    return [
        replace(outcome, flags=merge_flags(outcome.flags, [Flag.TERM_MISSING]))
        if isinstance(outcome, Translation) and _lacks_term(text, outcome, matcher, rules)
        else outcome
        for text, outcome in zip(texts, outcomes, strict=True)
    ]


def terms_of(
    sentences: Sequence[str], options: TranslateOptions, languages: LanguagePair | None
) -> list[tuple[Term, ...]]:
    """The terms of the glossary, which has them, that each sentence has, each once. Those that stay as they are come
    before them, and are left out."""
    if options.glossary is None:
        return [()] * len(sentences)
    matcher = _matcher(options.no_translate, options.glossary, languages, options.glossary_subset)
    kept = _kept(options.no_translate)
    return [
        tuple(dict.fromkeys(match.term for match in matcher.find(sentence) if match.term not in kept))
        for sentence in sentences
    ]


def lacking_terms(terms: Sequence[Term], translation: str) -> list[Term]:
    """Those of the terms of a sentence that its translation has not."""
    found = units(translation)
    return [term for term in terms if not has_target(term, found)]


def _lacks_term(text: str, outcome: Translation, matcher: TermMatcher, rules: MarkRules) -> bool:
    whole = AlignedSegment(0, len(text), 0, len(outcome.text))
    for segment in outcome.segments or (whole,):
        found = matcher.find(_seen(text[segment.source_start : segment.source_stop], rules))
        if found:
            translation = _seen(outcome.text[segment.target_start : segment.target_stop], rules)
            if lacking_terms(list(dict.fromkeys(match.term for match in found)), translation):
                return True
    return False


def _seen(text: str, rules: MarkRules) -> str:
    """A text as its readers see it: without tags, with characters for entities."""
    if not rules:
        return text
    parts, done = [], 0
    try:
        marks = find(text, rules)
    except EndlessPattern:  # of a translation; its source had none
        marks = []
    for mark in marks:
        parts.append(text[done : mark.start])
        match mark.kind:
            case Kind.CHARACTER:
                parts.append(mark.name)
            case Kind.WORD:
                parts.append(text[mark.start : mark.stop])
            case Kind.BREAK | Kind.BLANK | Kind.WRAP:
                parts.append(" ")
        done = mark.stop
    return "".join([*parts, text[done:]])


@lru_cache(maxsize=8)
def _kept(kept: Glossary | None) -> frozenset[Term]:
    return frozenset(kept.terms() if kept else ())


@lru_cache(maxsize=8)
def _matcher(
    kept: Glossary | None, glossary: Glossary | None, languages: LanguagePair | None, subset: str | None
) -> TermMatcher:
    """The terms of both that are for these languages and this subset; those that stay as they are come first, and those
    of the subset before those without one."""
    given = sorted(glossary.terms() if glossary else (), key=lambda term: not term.subset)
    return TermMatcher(
        term
        for term in (*(kept.terms() if kept else ()), *given)
        if term.subset in ("", subset)
        and (not term.source_language or (languages and may_be_same(term.source_language, languages.source)))
        and (not term.target_language or (languages and may_be_same(term.target_language, languages.target)))
    )
