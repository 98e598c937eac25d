"""A lane: one thread of a worker, and each provider as this thread uses it."""

from jobs.spec import JobSpec
from worker.engine.runtime.buffer_stats import BufferStats
from worker.providers.fallback import Fallback
from worker.providers.protocol import ProviderJob, ProviderLane
from worker.providers.registry import Providers


class Lane:
    """The state of one thread between batches: engines with their buffers, and which providers fail."""

    def __init__(self, number: int, providers: Providers) -> None:
        self.number = number
        self.fallback = Fallback(providers.breaker)
        self._providers = providers
        self._lanes: dict[str, ProviderLane] = {}
        # Of the latest job; where a job has several models, no single model has this revision.
        self.latest_revision: str | None = None

    def provider(self, name: str) -> ProviderLane:
        """A provider as this lane uses it. Raises SpecError where there is none of this name."""
        if name not in self._lanes:
            # A new dictionary: the heartbeat's thread reads the old one meanwhile.
            self._lanes = {**self._lanes, name: self._providers.get(name).new_lane()}
        return self._lanes[name]

    def batches_at_once(self, spec: JobSpec) -> int:
        """How many batches of a job the lane computes and records as one: see `ProviderLane.batches_at_once`."""
        for choice in spec.providers.usable[:1]:
            if choice.name in self._lanes:
                return self._lanes[choice.name].batches_at_once(ProviderJob(spec, choice))
        return 1  # it has processed nothing yet

    def is_local(self, name: str) -> bool:
        return self._providers.get(name).is_local

    @property
    def warm(self) -> tuple[str, ...]:
        """The revisions of the models that this process keeps open, for any lane, and of this lane's latest model."""
        latest = () if self.latest_revision is None else (self.latest_revision,)
        return tuple(dict.fromkeys((*self._providers.warm(), *latest)))

    @property
    def buffer_stats(self) -> BufferStats:
        return sum((lane.buffer_stats for lane in self._lanes.values()), BufferStats())
