"""What a worker process keeps in memory, for its heartbeat: models, and the KV buffers of all lanes."""

import json
from collections.abc import Sequence

from jobs.store.worker_registry import WorkerStats
from worker.lane import Lane
from worker.warm import WarmModels


def worker_stats(models: WarmModels, lanes: Sequence[Lane]) -> WorkerStats:
    """Sums over the lanes."""
    buffers = [one for lane in lanes for one in lane.buffers]
    return WorkerStats(
        models=json.dumps(models.load_times()),
        kv_bytes=sum(one.num_bytes for one in buffers),
        buffer_allocations=sum(one.allocations for one in buffers),
        buffer_reuses=sum(one.reuses for one in buffers),
    )
