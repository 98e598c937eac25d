"""Processing a batch with a provider that computes in this process."""

from collections.abc import Callable

from jobs.answers import Answers, Unanswered
from jobs.store.batches import Batch
from worker.engine.tasks.result_memory import ResultMemory
from worker.lane import Lane
from worker.providers.protocol import ProviderFailure, ProviderJob


def process_locally(
    lane: Lane, job: ProviderJob, documents: Batch, memory: ResultMemory, should_stop: Callable[[], bool]
) -> Answers:
    """Process a batch with an opened provider. Raises what `ProviderLane.process` raises, and anything else: whoever
    calls this isolates the documents from each other."""
    texts = [document.text for document in documents]
    answer = lane.provider(job.choice.name).process(job, texts, memory, should_stop)
    for outcome in answer.outcomes:
        if isinstance(outcome, Unanswered):
            raise ProviderFailure(outcome.code, outcome.reason)
    return answer
