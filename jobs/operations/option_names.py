"""Options in messages by their names (`max_text`), where a command would write its flags (`--max-text`).

Messages are written once, for the command line. Whoever gives options by name, in Python or over HTTP, reads names.
"""

import functools
import re
from collections.abc import Mapping

from jobs.operations.results import OF_RESULTS
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import every_option
from jobs.tasks.option import Option

# What follows `kvjobs` is a command to be run as it stands: up to the end of its line or sentence.
_FLAG = re.compile(r"`?kvjobs [a-z][^;,)\n]*|--(no-)?([a-z][a-z-]*[a-z])")


def with_names(message: str) -> str:
    """The message with the names of options in place of their flags; `--no-reuse` becomes `reuse=false`."""
    return _FLAG.sub(_name, message)


def _name(match: re.Match[str]) -> str:
    negated, flag = match.groups()
    if flag is None:
        return match[0]
    known, name, whole = _known(), flag.replace("-", "_"), f"{negated or ''}{flag}".replace("-", "_")
    if whole in known:
        return whole
    return f"{name}=false" if negated and name in known and known[name].type is bool else match[0]


@functools.cache
def _known() -> Mapping[str, Option]:
    return {**OF_EVERY_JOB, **every_option(), **OF_RESULTS, "with": OF_RESULTS["extras"]}
