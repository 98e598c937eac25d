"""
Every error a person may meet, grouped by what the caller does next.

    KvjobsError                 exit 1   operational failure
    ├── SpecError               exit 2   the user can fix what was asked
    │   └── CorpusError         exit 2   ... and here are the lines
    ├── ModelError              exit 2   the model on disk cannot be used as it is
    ├── NotFoundError           exit 5   no such job, no such model
    ├── StoreError              exit 1   the database refuses, and says why
    │   ├── TransientError      exit 1   ... waiting may fix it: the worker tries again
    │   └── ValueRefused        exit 1   ... because of the values that were to be written: no other try would do better
    ├── StaleLease              exit 1   another worker holds the shard now; the work is dropped
    └── Stopped                 exit 130 somebody asked us to stop

A document that cannot be processed is data, not an error: its outcome is `Failed` (`jobs.outcome`).
The message of each error is one sentence for a person: what is wrong, where, and what to do.
"""


class KvjobsError(Exception):
    """Something went wrong that kvjobs knows about."""

    exit_code = 1
    code = "operational"  # for programs: a word that stays as it is


class SpecError(KvjobsError):
    """What was asked for cannot be done as asked; the message says what to change."""

    exit_code = 2
    code = "refused"


class CorpusError(SpecError):
    """The corpus cannot be read; the message names the file and, where there is one, the line."""

    code = "corpus"


class ModelError(KvjobsError):
    """The model on disk cannot be used; the message names the file or the graph input at fault."""

    exit_code = 2
    code = "model"


class NotFoundError(KvjobsError):
    """There is no such job or model."""

    exit_code = 5
    code = "not_found"


class StoreError(KvjobsError):
    """The database refuses; the message says why."""


class TransientError(StoreError):
    """The database is busy, full or away: what was asked may succeed later."""

    code = "unavailable"


class ValueRefused(StoreError):
    """The database does not take these values, whoever writes them and whenever."""


class StaleLease(KvjobsError):
    """The shard's epoch has moved on: whatever this worker computed is dropped."""


class Stopped(KvjobsError):
    """The work was interrupted on request, between two steps."""

    exit_code = 130
    code = "interrupted"
