"""Cutting a corpus into shards, and shards into the batches of an ingest. The borders depend on the corpus alone, so a
repeated submit, and two at once, make the same shards and batches.

Where documents have routes by language, a shard of one route ends with it once it is a quarter full: a corpus that is
sorted by language has shards of one model each. One that changes at every line is cut as ever.
"""

from collections.abc import Iterable, Iterator

from jobs.documents import Document, Record
from jobs.store.ingest.lifecycle import IngestBatch
from jobs.tasks.kinds import KINDS
from jobs.tasks.task import Task

# Estimated tokens; a longer document is a shard by itself.
SHARD_TOKENS = 16_000
# No batch spans two shards. A query with a hundred passages is some 15,000 tokens, and prompts are continued a hundred
# at a time, however long they are.
LARGE_SHARD_TOKENS = 64_000
SHARD_DOCUMENTS = 1_000  # rejected ones included: they are in the range
SHARD_CHARS = 1 << 22  # of texts and other fields: a worker has a shard in memory
BATCH_DOCUMENTS = 20_000  # written in one transaction, rounded up to whole shards
BATCH_CHARS = 1 << 24


def shard_tokens(task: Task) -> int:
    """The estimated tokens of a shard of this task."""
    return LARGE_SHARD_TOKENS if KINDS[task].has_large_shards else SHARD_TOKENS


def cut_batches(records: Iterable[Record], max_tokens: int = SHARD_TOKENS) -> Iterator[IngestBatch]:
    """All records, in order, as batches of shards of at most `max_tokens`, by estimate."""
    shards: list[list[Record]] = []
    num_documents = num_chars = 0
    for shard, chars in _cut_shards(records, max_tokens):
        shards.append(shard)
        num_documents += len(shard)
        num_chars += chars
        if num_documents >= BATCH_DOCUMENTS or num_chars >= BATCH_CHARS:
            yield IngestBatch(shards)
            shards, num_documents, num_chars = [], 0, 0
    if shards:
        yield IngestBatch(shards)


def _cut_shards(records: Iterable[Record], max_tokens: int) -> Iterator[tuple[list[Record], int]]:
    """(shard, number of its characters) of each shard."""
    max_documents, max_chars = SHARD_DOCUMENTS, SHARD_CHARS
    shard: list[Record] = []
    tokens = chars = 0
    route: str | None = None  # of the shard's documents
    is_mixed = False  # whether they have several
    for record in records:
        ends_route = False
        if type(record) is Document:
            ends_route = record.route != route and not is_mixed and tokens >= max_tokens // 4
            more_tokens, fields = record.estimated_tokens, record.fields
            more_chars = 4 * more_tokens + (len(fields) if fields else 0)
        else:
            more_tokens = more_chars = 0
        if shard and (
            tokens + more_tokens > max_tokens
            or chars + more_chars > max_chars
            or len(shard) == max_documents
            or ends_route
        ):
            yield shard, chars
            shard, tokens, chars, is_mixed = [], 0, 0, False
        if type(record) is Document:
            is_mixed = is_mixed or (tokens > 0 and record.route != route)
            route = record.route
        shard.append(record)
        tokens += more_tokens
        chars += more_chars
    if shard:
        yield shard, chars
