"""
The interface of a provider: an engine that can answer the documents of a job.

    Provider         one a process, shared by the lanes     can it do this job?   new_lane()
    ProviderLane     one a lane                             open, process
    AnsweringLane    that, or a lane around it

A document's answer is an outcome (a result, or `Failed` where the document itself is bad: no other provider is asked
then), or `Unanswered`, and the next provider of the job gets it.

Knows: documents in, answers out. Does not know: the order of providers, leases, tables.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from jobs.answers import Answers
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError
from jobs.providers import ONNX, Choice, Reason
from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext


class ProviderFailure(KvjobsError):
    """The provider fails, with every document. The message is a sentence without the provider's name."""

    def __init__(self, code: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = code

    def __reduce__(self) -> tuple[type["ProviderFailure"], tuple[Reason, str]]:
        return type(self), (self.reason, str(self))  # it may come from another process


@dataclass(frozen=True, slots=True)
class ProviderJob:
    """A job as one of its providers gets it."""

    spec: JobSpec
    choice: Choice  # of `spec.providers`

    @property
    def model(self) -> str:
        """The model's name at the provider."""
        return self.choice.model or self.spec.model

    @property
    def own_spec(self) -> JobSpec:
        """The job's spec with the provider's counterpart in place of its model."""
        if self.choice.model is None:
            return self.spec
        revision = self.choice.revision or self.spec.model_revision
        return replace(self.spec, model=self.choice.model, model_revision=revision)

    def memory_digest(self) -> bytes:
        """`JobSpec.memory_digest`; unless onnx runs the job's own model, with provider and model, as results differ."""
        digest = self.spec.memory_digest()
        if self.choice.name == ONNX and self.choice.model is None:
            return digest
        return hashlib.sha256(digest + "\n".join((*self.key, self.choice.revision or "")).encode()).digest()

    @property
    def key(self) -> tuple[str, str, str]:
        """The provider, its model and the task: what fails and recovers as one. A server that returns no
        log-probabilities can still translate."""
        return self.choice.name, self.model, self.spec.task


@dataclass(frozen=True, slots=True)
class WarmModel:
    """A model that a provider keeps open in this process."""

    name: str
    load_s: float


class AnsweringLane(Protocol):
    """A provider's lane, or a lane around one, which isolates documents from each other (`worker.isolation`)."""

    def open(self, job: ProviderJob) -> None:
        """Load the model, or ask the server for it; quick where that was done before.

        Raises ProviderFailure; NotFoundError, ModelError and SpecError where the model cannot do the job.
        """

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        """Answer documents of a job that was opened.

        A provider that fails midway answers what it has, and gives the others as `Unanswered`; it calls
        `run.should_stop` at least once a second. Raises what `open` raises, and Stopped where the run is to end. A
        local provider answers every document, and may raise anything else: then the batch is bisected.
        """


class ProviderLane(AnsweringLane, Protocol):
    """A provider as one lane uses it, with buffers of its own."""

    def batches_at_once(self, job: ProviderJob) -> int:
        """How many batches of a job are better computed as one; 1 where a document's result may depend on its batch."""

    def changed_files(self) -> list[str]:
        """The files that have changed since the model that was used last was opened; none of a server's."""

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of its buffers in this process."""


class Provider(Protocol):
    """A kind of engine in one worker process, or in the process that submits."""

    name: ClassVar[str]
    is_local: ClassVar[bool]  # computes in this process: a document may raise, kill or hang it, and is then isolated

    @classmethod
    def start(cls, arguments: WorkerArguments) -> "Provider":
        """The provider with these settings. Opens nothing: `kvjobs submit` calls it too."""

    def why_not(self, job: ProviderJob) -> str | None:
        """Why it cannot do the job with these options, a sentence without the provider's name; None: it can. Asks no
        server."""

    def new_lane(self) -> ProviderLane:
        """What one lane uses."""

    def warm(self) -> Mapping[str, WarmModel]:
        """The models that this process keeps open, by revision."""
