"""Processing a batch with a provider that computes in this process."""

from jobs.answers import Answers, Unanswered
from jobs.store.batches import Batch
from worker.engine.runtime.run_context import RunContext
from worker.lane import Lane
from worker.providers.protocol import ProviderFailure, ProviderJob


def process_locally(lane: Lane, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
    """Process a batch with an opened provider. Raises what `ProviderLane.process` raises, and anything else: whoever
    calls this isolates the documents from each other."""
    answers = lane.provider(job.choice.name).process(job, documents, run)
    for outcome in answers.outcomes:
        if isinstance(outcome, Unanswered):
            raise ProviderFailure(outcome.code, outcome.reason)
    return answers
