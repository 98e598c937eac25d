"""A batch in which the engine raises an error: bisect it until each failing document stands alone."""

import logging
from dataclasses import dataclass

from jobs.answers import Answers, join
from jobs.errors import KvjobsError, ModelError
from jobs.outcome import Failed
from jobs.store.queue.batches import Batch
from worker.engine.runtime.run_context import RunContext
from worker.providers.protocol import AnsweringLane, ProviderJob

log = logging.getLogger(__name__)

# A batch of at least this size whose documents fail one by one, all of them: the model is at fault, not the documents.
MODEL_AT_FAULT = 8


@dataclass(frozen=True, slots=True)
class BisectingLane:
    """A lane around the lane of a local provider: a document on which the engine fails even alone
    becomes `Failed`, the others are not affected."""

    lane: AnsweringLane

    def open(self, job: ProviderJob) -> None:
        self.lane.open(job)

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        """Raises any `KvjobsError` (a lost lease, a request to stop) and ImportError unchanged, and ModelError where
        every document of a batch of `MODEL_AT_FAULT` or more fails."""
        answers = self._bisect(job, documents, run)
        failures = [
            outcome for outcome in answers.outcomes if isinstance(outcome, Failed) and outcome.code == "engine-error"
        ]
        if len(failures) == len(documents) >= MODEL_AT_FAULT:
            raise ModelError(
                f"the engine failed on each of {len(documents)} documents, so the model is at fault, not the "
                f"documents: {failures[0].message}"
            )
        return answers

    def _bisect(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        try:
            return self.lane.process(job, documents, run)
        except (KvjobsError, ImportError):  # a package that is being replaced says nothing about a document
            raise
        except Exception as error:  # a runtime may raise anything, out of memory included
            message = f"{type(error).__name__}: {error}"
            log.warning("a batch failed (documents in the batch: %d): %s", len(documents), message)
            if len(documents) == 1:
                return Answers([Failed("engine-error", message)])
        middle = len(documents) // 2
        return join(self._bisect(job, half, run) for half in (documents[:middle], documents[middle:]))
