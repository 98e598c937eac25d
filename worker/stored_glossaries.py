"""The glossaries of a job as its engine gets them: with their terms, which the database has."""

from dataclasses import replace
from functools import lru_cache

from jobs.answers import Answers
from jobs.routing.language_pair import LanguagePair, language_pair
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.glossaries import read_glossary_content
from jobs.store.queue.batches import Batch
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import Glossary
from worker.engine.tasks.term_check import with_term_flags


def with_glossaries(database: Database, spec: JobSpec) -> JobSpec:
    """The spec with the terms of its glossaries. Raises NotFoundError where they are gone."""
    options = spec.options
    if not isinstance(options, TranslateOptions) or not options.has_terms:
        return spec
    glossary, kept = (some and _read(database, some) for some in (options.glossary, options.no_translate))
    return replace(spec, options=replace(options, glossary=glossary, no_translate=kept))


def checked_for_terms(spec: JobSpec, batch: Batch, answers: Answers) -> Answers:
    """The answers of a batch with the flags that follow from the glossaries of its spec, whoever answered."""
    options = spec.options
    if not isinstance(options, TranslateOptions) or not options.has_terms:
        return answers
    texts = [document.text for document in batch]
    return replace(answers, outcomes=with_term_flags(texts, answers.outcomes, options, _languages(spec, options)))


def _languages(spec: JobSpec, options: TranslateOptions) -> LanguagePair | None:
    if options.routes:  # of two models: from the first one's source to the second one's target
        first, last = options.routes[0].legs[0], options.routes[0].legs[-1]
        from_middle = language_pair(last.model, last.source_language, last.target_language)
        to_middle = language_pair(first.model, first.source_language, first.target_language)
        source = to_middle.source if to_middle else first.source_language
        return None if from_middle is None else LanguagePair(source, from_middle.target)
    return language_pair(spec.model, options.source_language, options.target_language)


@lru_cache(maxsize=8)  # a database for each process
def _read(database: Database, glossary: Glossary) -> Glossary:
    return read_glossary_content(database, glossary)
