"""A batch in which the engine raises an error: bisect it until each failing document stands alone."""

import logging
from collections.abc import Callable

from jobs.answers import Answers, join
from jobs.errors import KvjobsError, ModelError
from jobs.outcome import Failed
from jobs.store.batches import Batch

log = logging.getLogger(__name__)

# A batch of at least this size whose documents fail one by one, all of them: the model is at fault, not the documents.
MODEL_AT_FAULT = 8


def process_or_bisect(process: Callable[[Batch], Answers], batch: Batch) -> Answers:
    """Process a batch; a document on which the engine fails even alone becomes `Failed`, the others are not affected.

    Raises any `KvjobsError` (a lost lease, a request to stop) and ImportError unchanged, and ModelError where every
    document of a batch of `MODEL_AT_FAULT` or more fails.
    """
    result = _bisect(process, batch)
    failures = [
        outcome for outcome in result.outcomes if isinstance(outcome, Failed) and outcome.code == "engine-error"
    ]
    if len(failures) == len(batch) >= MODEL_AT_FAULT:
        raise ModelError(
            f"the engine failed on each of {len(batch)} documents, so the model is at fault, not the documents: "
            f"{failures[0].message}"
        )
    return result


def _bisect(process: Callable[[Batch], Answers], batch: Batch) -> Answers:
    try:
        return process(batch)
    except (KvjobsError, ImportError):  # a package that is being replaced says nothing about a document
        raise
    except Exception as error:  # a runtime may raise anything, out of memory included
        message = f"{type(error).__name__}: {error}"
        log.warning("a batch failed (documents in the batch: %d): %s", len(batch), message)
        if len(batch) == 1:
            return Answers([Failed("engine-error", message)])
    middle = len(batch) // 2
    return join(_bisect(process, half) for half in (batch[:middle], batch[middle:]))
