"""
Every error that a user may see, grouped by what the caller does next.

    KvjobsError                 exit 1   operational failure
    ├── SpecError               exit 2   the request cannot be carried out; the user can change it
    │   ├── CorpusError         exit 2   ... and the message names the file and its lines
    │   ├── KeyTaken        exit 2   ... because its key belongs to a job with other options
    │   ├── NotAllowedError     exit 2   ... because the token does not allow it: its role, or whose job it is
    │   └── LimitReached        exit 2   ... because the token's limit is reached; later it may be carried out
    ├── ModelError              exit 2   the model on disk cannot be used as it is
    ├── NotFoundError           exit 5   no such job, no such model
    ├── StoreError              exit 1   the database refused, and the message says why
    │   ├── TransientError      exit 1   ... for now: a worker tries again
    │   └── ValueRefused        exit 1   ... because of the values to be written: trying again would not help
    ├── StaleLease              exit 1   another worker has leased the shard since; the results are dropped
    └── Stopped                 exit 130 the work was stopped on request

A document that cannot be processed is data, not an error: its outcome is `Failed` (`jobs.outcome`).
The message of each error is one sentence for a person: what is wrong, where, and what to do; of a name that does not
exist, which one is near.
"""

from collections.abc import Iterable


class KvjobsError(Exception):
    """The base of all errors that kvjobs raises on purpose; anything else is a bug."""

    exit_code = 1
    code = "operational"  # for programs: does not change between versions


class SpecError(KvjobsError):
    """The request cannot be carried out as given; the message says what to change."""

    exit_code = 2
    code = "refused"


class CorpusError(SpecError):
    """The corpus cannot be read; the message names the file and, where there is one, the line."""

    code = "corpus"


class KeyTaken(SpecError):
    """The key that names a job belongs to another request."""

    code = "key_taken"


class NotAllowedError(SpecError):
    """The token that was sent does not allow it: its role is too low, or the job is another's."""

    code = "not_allowed"


class LimitReached(SpecError):
    """A limit of the token that was sent is reached: the same request may succeed once its open jobs have ended."""

    code = "limit_reached"


class ModelError(KvjobsError):
    """The model on disk cannot be used; the message names the file or the graph input at fault."""

    exit_code = 2
    code = "model"


class NotFoundError(KvjobsError):
    """There is no such job or model."""

    exit_code = 5
    code = "not_found"


class StoreError(KvjobsError):
    """The database refused the operation; the message says why."""


class TransientError(StoreError):
    """The database is busy, full or unreachable: the same request may succeed later."""

    code = "unavailable"


class ValueRefused(StoreError):
    """The database does not accept these values, so trying again would fail too."""


class StaleLease(KvjobsError):
    """The shard has a newer lease epoch, so the results of this worker are dropped."""


class StageDied(KvjobsError):
    """A process that ran a stage of a split model ended in the middle of a batch."""

    code = "stage_died"


class Stopped(KvjobsError):
    """The work was interrupted on request, between two steps."""

    exit_code = 130
    code = "interrupted"


FORMERLY = {"error_message": "error"}  # columns of CSV and parquet until 0.2.0


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that resembles this one most; None: no name is similar enough (`cutoff`, of difflib)."""
    from difflib import get_close_matches  # loaded where something is wrong, and not by each command

    by_lower: dict[str, str] = {}
    for known in names:
        by_lower.setdefault(known.lower(), known)
    if (now := FORMERLY.get(name.lower())) in by_lower:
        return now
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def meant(name: str, names: Iterable[str]) -> str:
    """What an error adds to a name that does not exist: ` (did you mean jsonl?)`; empty where no name is near."""
    near = nearest(name, names)
    return f" (did you mean {near}?)" if near else ""


def advice_in(message: str) -> str | None:
    """What the message of an error says to do: messages are written so that it is the command after the last colon, or
    what follows the semicolon. None: it does not say."""
    first, _, _ = message.partition("\n")
    _, is_advice, advised = first.rpartition(": ")
    if is_advice and advised.startswith(("kvjobs ", "pip install ")):
        return advised
    return first.partition("; ")[2].rstrip(":") or None
