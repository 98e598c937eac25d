"""The sentences of a translating job with their translations, as units that a person corrects and imports."""

import hashlib
import json
from collections.abc import Iterator

from jobs.errors import SpecError
from jobs.routing.language_pair import LanguagePair, language_pair
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.report.documents.aligned_texts import aligned_texts
from jobs.store.report.job_summary import JobSummary
from jobs.tasks.translate import TranslateOptions
from jobs.units.translation_unit import TranslationUnit


def languages_of(job: JobSummary, source: str | None = None, target: str | None = None) -> LanguagePair:
    """The languages of a job, or those that are given in their place. Raises SpecError for a job that translates
    nothing, and where nothing says its target language."""
    if not job.kind.is_between_languages:
        raise SpecError(f"job {job.job_id} does not translate (its task is {job.task}), so it has no translation units")
    spec = JobSpec.restore(task=job.task, model=job.model, model_revision=job.model_revision, options_json=job.options)
    assert isinstance(spec.options, TranslateOptions)
    found = language_pair(job.model, spec.options.source_language, target or spec.options.target_language)
    if found is None:
        raise SpecError(
            f"neither the options of job {job.job_id} nor the name of its model say its target language: give "
            "--target-language"
        )
    return found._replace(source=source or found.source)


def sentence_pairs(database: Database, job: JobSummary, languages: LanguagePair) -> Iterator[TranslationUnit]:
    """Every sentence of the job's documents with its translation, in their order; equal pairs once. Results of versions
    that stored no borders of sentences have none."""
    seen: set[bytes] = set()
    for document in aligned_texts(database, job.job_id):
        for start, stop, target_start, target_stop in json.loads(document.segments):
            source = document.text[start:stop].strip()
            target = document.translation[target_start:target_stop].strip()
            digest = hashlib.blake2b(f"{source}\0{target}".encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if source and target and digest not in seen:
                seen.add(digest)
                yield TranslationUnit(source, target, languages.source, languages.target)
