"""What an option may say about jobs and their results. Without what answers it, so that a help loads no database."""

import enum

PAUSED, CANCELLING = "paused", "cancelling"  # shown as states, though they are properties of a running job
SHOWN_STATES = ("ingesting", "running", PAUSED, CANCELLING, "done", "cancelled", "failed")


class Only(enum.StrEnum):
    """Which documents are wanted. Without a choice: all that are in a terminal state."""

    OK = "ok"  # those with a result
    FAILED = "failed"  # those that ended without: failed, rejected, quarantined, cancelled
    WAITING = "waiting"  # those that are not in a terminal state yet
    ALL = "all"  # the waiting ones among them


class By(enum.StrEnum):
    """What the rows of a summary of steps stand for."""

    PHASE = "phase"  # encode, prefill, decode, ... ; most seconds first
    STEP = "step"  # decoder calls by their number within the batch: flat milliseconds mean that the cache works
    LANE = "lane"  # one thread of one worker
