"""A batch in which a document fails: halve it until the document stands alone, and leave its neighbours untouched."""

import logging
from collections.abc import Callable

from jobs.errors import KvjobsError, ModelError
from jobs.outcome import Failed
from jobs.store.batches import Batch
from worker.engine.tasks.batch_result import BatchResult

log = logging.getLogger(__name__)

# So many documents that fail one by one, and none that succeeds: it is the model, not the documents.
HOPELESS = 8


def process_or_bisect(translate: Callable[[Batch], BatchResult], batch: Batch) -> BatchResult:
    """Translate a batch; a document on which the engine fails even alone becomes `Failed`.

    Raises what `jobs.errors` knows (a lost lease, a request to stop) as it is, and ModelError where a whole batch of
    some size fails document by document.
    """
    result = _halve(translate, batch)
    failures = [
        outcome for outcome in result.outcomes if isinstance(outcome, Failed) and outcome.code == "engine-error"
    ]
    if len(failures) == len(batch) >= HOPELESS:
        raise ModelError(
            f"the engine failed on each of {len(batch)} documents, so it is not the documents: {failures[0].message}"
        )
    return result


def _halve(translate: Callable[[Batch], BatchResult], batch: Batch) -> BatchResult:
    try:
        return translate(batch)
    except KvjobsError:
        raise
    except Exception as error:  # whatever a runtime may raise, out of memory too: the documents decide
        message = f"{type(error).__name__}: {error}"
        log.warning("a batch failed (documents in it: %d): %s", len(batch), message)
        if len(batch) == 1:
            return BatchResult([Failed("engine-error", message)], {}, [])
    middle = len(batch) // 2
    first, second = _halve(translate, batch[:middle]), _halve(translate, batch[middle:])
    return BatchResult(
        outcomes=[*first.outcomes, *second.outcomes],
        learned=first.learned | second.learned,
        timings=[*first.timings, *second.timings],
    )
