"""The languages of a job's texts, for the attribute `lang`: by it a browser chooses the shapes of Chinese and Japanese
characters, hyphenation and a voice."""

import json
import re
from dataclasses import dataclass

from jobs.routing.language_pair import pair_of
from jobs.routing.routes import BETWEEN
from jobs.routing.target_language import target_language_of
from jobs.store.report.job_summary import JobSummary

_TAG = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


@dataclass(frozen=True, slots=True)
class Languages:
    """The language tags of a job's texts; None: not known."""

    source: str | None
    target: str | None
    via: str | None = None  # of the text between two models


def languages_of(job: JobSummary, route: str | None = None) -> Languages:
    """The languages that the options name, else those in the model's name. `route`: the document's, in a job that has
    routes by language."""
    if not job.kind.is_between_languages:
        return Languages(None, None)
    options = json.loads(job.options)
    by_language = {route["language"]: route for route in options.get("routes", ()) if route["language"] is not None}
    if by_language:
        taken = by_language.get(route, {})
        return Languages(_tag(route), _tag(options.get("target_language")), _tag(taken.get("via")))
    pairs = [pair_of(model) or (None, None) for model in job.model.split(BETWEEN)]
    first = pairs[0]
    routes = options.get("routes") or [{}]
    # The option's default is English, whatever the corpus is, so the name of a model for one pair counts more.
    return Languages(
        source=_tag(first[0] or options.get("source_language")),
        target=_tag(target_language_of(job.model, options.get("target_language"))),
        via=_tag(routes[0].get("via")) if len(pairs) > 1 else None,
    )


def _tag(language: str | None) -> str | None:
    return language.replace("_", "-") if language and _TAG.fullmatch(language) else None
