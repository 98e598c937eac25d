"""What a worker process keeps in memory, for its heartbeat: models, and the KV buffers of all lanes."""

import json
from collections.abc import Sequence

from jobs.store.worker_registry import WorkerStats
from worker.engine.runtime.buffer_stats import BufferStats
from worker.lane import Lane
from worker.providers.registry import Providers


def worker_stats(providers: Providers, lanes: Sequence[Lane]) -> WorkerStats:
    """The stats of this process, with the buffers of its lanes summed up."""
    buffers = sum((lane.buffer_stats for lane in lanes), BufferStats())
    return WorkerStats(
        models=json.dumps({model.name: round(model.load_s, 3) for model in providers.warm().values()}),
        kv_bytes=buffers.num_bytes,
        buffer_allocations=buffers.allocations,
        buffer_reuses=buffers.reuses,
    )
