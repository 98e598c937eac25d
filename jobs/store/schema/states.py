"""The states of jobs, shards and documents, and the transitions between them."""

import enum


class JobState(enum.StrEnum):
    """
    ingesting --ingested--> running --last shard closed--> done
        |                      |
        +--aborted--> failed   +--cancel, last shard closed--> cancelled

    A job that documents are appended to is running from the beginning, and never done before it is closed.
    retry leads from done and cancelled back to running; to ingesting where the corpus was not read to its end.
    """

    INGESTING = "ingesting"  # its documents are still being written; no worker sees it
    RUNNING = "running"  # shards may be leased (unless `paused`)
    DONE = "done"  # every document is in a terminal state
    CANCELLED = "cancelled"  # on request, and no shard is open any more
    FAILED = "failed"  # the ingest was given up; `reason` says why


ENDED_STATES = (JobState.DONE, JobState.CANCELLED, JobState.FAILED)  # of a job: nothing of it is left to do


class ShardState(enum.StrEnum):
    """
    ready --lease--> leased --record ... finish--> done
      ^                 |
      +--release--------+
      +--expire (epoch + 1, crashes + 1)
    ready --cancel--> cancelled
    """

    READY = "ready"  # may be leased
    LEASED = "leased"  # `lease_owner` works on it until `lease_until`
    DONE = "done"  # every document of it is in a terminal state
    CANCELLED = "cancelled"  # its documents without a result were cancelled


class WorkerRequest(enum.StrEnum):
    """What a person has asked of a worker."""

    WORK = "work"  # nothing else; in the database a null
    PAUSE = "pause"  # give shards back after the batches in hand, and lease none until it is resumed; models stay warm
    DRAIN = "drain"  # lease no more shards, finish those in hand, then exit


class DocumentStatus(enum.StrEnum):
    """Why a document has no result. A document without status and result is waiting; `retry` makes it wait again."""

    REJECTED = "rejected"  # the line could not be read as a document
    FAILED = "failed"  # the engine could not process it
    QUARANTINED = "quarantined"  # it kills the process that processes it
    CANCELLED = "cancelled"  # the job was cancelled before a worker came to it
    SKIPPED = "skipped"  # the stage before has no result for it, or a filter dropped it (`jobs.store.queue.chains`)
