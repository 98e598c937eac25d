"""A shard cut into batches: documents that are computed and recorded together, and at worst computed again."""

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.outcome import Generation, Ranking, Translation
from jobs.tasks.document_options import shared_part
from jobs.tasks.kind import Kind

# A kill loses at most one batch per lane, and SIGTERM waits for one: so seconds, not minutes. But the larger a batch,
# the better its segments sort into model calls of equal length.
MAX_TOKENS = 4_096
MAX_BATCHES_AT_ONCE = 4  # that become one where a lane is fast: a shard (`jobs.submission.shards.SHARD_TOKENS`)
# A query with a hundred passages is some 15,000 tokens. Smaller queries share a batch: a passage that two of them have
# is read once.
MAX_TOKENS_OF_QUERIES = 16_384
MAX_DOCUMENTS = 256
# Prompts run side by side until the last has ended, so a batch has several times as many as rows run at a time. Each
# costs what it generates, too.
MAX_TOKENS_OF_PROMPTS, MAX_PROMPTS = 32_768, 128


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document of a shard: what the borders of batches depend on."""

    position: int
    text: str
    estimated_tokens: int
    ended: bool = False  # in a terminal state already
    route: str | None = None  # the language by which its models are chosen
    own_options: str | None = None  # in place of the job's (`jobs.tasks.document_options`)


Batch = tuple[PlannedDocument, ...]
Alike = tuple[str | None, str | None]  # what the documents of a batch have in common


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The largest batch of a job; a document that is larger is a batch of its own."""

    tokens: int  # estimated, all documents together
    documents: int


def batch_limits(kind: Kind, batches_at_once: int = 1) -> BatchLimits:
    """The limits by which a lease, and a trial of providers, cut the documents of a job. `batches_at_once`: how many
    batches the lane computes as one, which only a translation follows."""
    if kind.outcome is Generation:
        return BatchLimits(MAX_TOKENS_OF_PROMPTS, MAX_PROMPTS)
    if kind.outcome is Ranking:
        return BatchLimits(MAX_TOKENS_OF_QUERIES, MAX_DOCUMENTS)
    times = min(batches_at_once, MAX_BATCHES_AT_ONCE) if kind.outcome is Translation else 1
    return BatchLimits(times * MAX_TOKENS, times * MAX_DOCUMENTS)


def plan_batches(
    documents: Iterable[PlannedDocument], max_tokens: int = MAX_TOKENS, max_documents: int = MAX_DOCUMENTS
) -> tuple[Batch, ...]:
    """Cut a shard's documents into batches, in order, those of one route and of equal options after those of others,
    so that a batch has one model and each model gets all that the shard has for it; then leave out the documents that
    have ended.

    The borders depend on the whole shard and never on what is done. With the same limits, the next lease of a half-done
    shard computes the same batches as the previous one would have, so an interrupted run ends in the same bits as an
    undisturbed one. Other limits are for models that give each document the same bits in any batch.
    """
    alike: dict[Alike, list[PlannedDocument]] = {}
    for document in documents:
        alike.setdefault(_alike(document), []).append(document)
    batches = (batch for some in alike.values() for batch in _cut(some, max_tokens, max_documents))
    todo = (tuple(document for document in batch if not document.ended) for batch in batches)
    return tuple(batch for batch in todo if batch)


def joined(batches: Iterable[Batch], times: int) -> tuple[Batch, ...]:
    """Batches in the same order, neighbours of one route and of equal options as one where they are at most
    `times` the usual size."""
    found: list[Batch] = []
    for batch in batches:
        are_alike = found and _alike(found[-1][0]) == _alike(batch[0])
        both = (*found[-1], *batch) if are_alike else ()
        tokens = sum(document.estimated_tokens for document in both)
        if both and tokens <= times * MAX_TOKENS and len(both) <= times * MAX_DOCUMENTS:
            found[-1] = both
        else:
            found.append(batch)
    return tuple(found)


def _alike(document: PlannedDocument) -> Alike:
    return document.route, shared_part(document.own_options)


def _cut(documents: Iterable[PlannedDocument], max_tokens: int, max_documents: int) -> list[list[PlannedDocument]]:
    batches: list[list[PlannedDocument]] = [[]]
    tokens = 0
    for document in documents:
        full = tokens + document.estimated_tokens > max_tokens or len(batches[-1]) == max_documents
        if full and batches[-1]:
            batches.append([])
            tokens = 0
        batches[-1].append(document)
        tokens += document.estimated_tokens
    return batches
