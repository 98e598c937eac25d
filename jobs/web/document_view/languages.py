"""The languages of a job's texts, for the attribute `lang`: by it a browser chooses the shapes of Chinese and Japanese
characters, hyphenation and a voice."""

import json
import re
from dataclasses import dataclass

from jobs.spec import Task
from jobs.store.report.job_summary import JobSummary

# The pair at the end of a model's name: opus-mt-en-zh, demo-en-zh-int8.
_PAIR = re.compile(r"-([a-z]{2})-([a-z]{2})(?=$|[-_.])")
_TAG = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


@dataclass(frozen=True, slots=True)
class Languages:
    """Language tags; None: not known."""

    source: str | None
    target: str | None


def languages_of(job: JobSummary) -> Languages:
    """What the options say; else what the name of the model says."""
    if job.task != Task.TRANSLATE:
        return Languages(None, None)
    options = json.loads(job.options)
    pair = _PAIR.search(job.model)
    named = pair.groups() if pair else (None, None)
    # The option's default is English, whatever the corpus is, so the name of a model for one pair counts more.
    return Languages(_tag(named[0] or options.get("source_language")), _tag(options.get("target_language") or named[1]))


def _tag(language: str | None) -> str | None:
    return language.replace("_", "-") if language and _TAG.fullmatch(language) else None
