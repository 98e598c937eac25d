"""Values of options about jobs and results. Separate from the code that uses them, so that --help loads no database."""

import enum
from collections.abc import Collection

# Displayed as states; in the database such a job is `running`. `waiting`: it has work, and no live worker takes it.
# `awaiting`: it is open, and each of its documents has ended.
PAUSED, CANCELLING, WAITING, AWAITING = "paused", "cancelling", "waiting", "awaiting"
SHOWN_STATES = ("ingesting", "running", WAITING, AWAITING, PAUSED, CANCELLING, "done", "cancelled", "failed")
SHOWN_OF_RUNNING = frozenset({"running", WAITING, AWAITING})  # the database has one state for these
STATE_WORDS = {WAITING: "waits for a worker", AWAITING: "waits for documents"}  # of a state whose name does not say it


def state_in_words(state: str) -> str:
    """The words that pages and sentences use for a state."""
    return STATE_WORDS.get(state, state)


def is_split(states: Collection[str]) -> bool:
    """Whether the database cannot tell these states from others: they are some of those of a running job, not all."""
    return bool(SHOWN_OF_RUNNING.intersection(states)) and not SHOWN_OF_RUNNING.issubset(states)


class Only(enum.StrEnum):
    """Which documents to export. Without a choice: all in a terminal state, except skipped ones."""

    OK = "ok"  # those with a result
    FAILED = "failed"  # documents that ended without a result: failed, rejected, quarantined, cancelled
    WAITING = "waiting"  # those not in a terminal state yet
    ALL = "all"  # all, with the waiting and the skipped ones


class Role(enum.StrEnum):
    """What the holder of a token may do over HTTP. Each may do what those before it may."""

    VIEWER = "viewer"  # read pages, JSON, exports, metrics
    PRODUCER = "producer"  # submit and upload, and act on the jobs that it submitted
    OPERATOR = "operator"  # act on every job and worker

    def includes(self, other: "Role") -> bool:
        """Whether it may do what the other may."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


class By(enum.StrEnum):
    """How timings are grouped."""

    PHASE = "phase"  # encode, prefill, decode, ... ; most seconds first
    STEP = "step"  # decoder calls by their number in the batch: constant milliseconds mean that the cache works
    LANE = "lane"  # a thread of a worker
