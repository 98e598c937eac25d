"""A provider that computes nothing and answers as the demo model does: as many rows to store.

Knows: outcomes and timings. Does not know: leases, databases.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jobs.answers import Answers
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.outcome import AlignedSegment, Learned, SegmentTranslation, StepTiming, Translation
from jobs.providers import ONNX
from jobs.settings import Settings
from jobs.store.queue.batches import Batch
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext, memory_key
from worker.providers.protocol import Provider, ProviderJob, WarmModel
from worker.providers.registry import Providers

# Timings of a batch of 4,096 estimated tokens, of texts of 195 characters: the demo model's, with 64 slots
# (120,000 bulletins on PostgreSQL, 2026-11-23: 68.2, 134.2 and 4.8 rows a batch besides those of `segment` and
# `tokenize`).
ENCODES, DECODES, DETOKENIZES = 68, 134, 5
SLOTS = 64
STOP_EVERY_S = 0.5  # a real lane asks between two model calls whether to go on


class InstantProviders(Providers):
    """The providers of a simulated worker: whatever a job names, this one answers."""

    def __init__(self, pace_s: tuple[float, float]) -> None:
        """`pace_s`: the shortest and the longest time that a batch takes."""
        super().__init__(WorkerArguments(Settings(home=Path(), models_dir=Path())))
        self._instant = InstantProvider(pace_s)

    def get(self, name: str) -> Provider:
        return self._instant

    def warm(self) -> dict[str, WarmModel]:
        return {}


class InstantProvider:
    """Answers every text."""

    name = ONNX
    is_local = True

    def __init__(self, pace_s: tuple[float, float]) -> None:
        self.pace_s = pace_s

    @classmethod
    def start(cls, arguments: WorkerArguments) -> "InstantProvider":
        return cls((0.0, 0.0))

    def why_not(self, job: ProviderJob) -> str | None:
        return None

    def new_lane(self) -> "InstantLane":
        return InstantLane(self.pace_s)

    def warm(self) -> Mapping[str, WarmModel]:
        return {}


class InstantLane:
    """The provider as one lane uses it."""

    buffer_stats = BufferStats()

    def __init__(self, pace_s: tuple[float, float]) -> None:
        self._pace_s = pace_s

    def open(self, job: ProviderJob) -> None:
        """Nothing to load."""

    def batches_at_once(self, job: ProviderJob) -> int:
        return 1

    def changed_files(self) -> list[str]:
        return []

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        """Ask the memory for each sentence, as a translation does, wait, and answer."""
        texts, digest = [document.text for document in documents], job.memory_digest()
        sentences = [sentence for text in texts for sentence in _sentences(text)]
        keys = [memory_key(digest, sentence) for sentence in sentences]
        known = run.memory.recall(keys) if job.spec.options.reuse else {}
        deadline = time.monotonic() + random.uniform(*self._pace_s)
        while not run.should_stop() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, STOP_EVERY_S))
        learned: Learned = {}
        if job.spec.options.reuse:
            learned = {key: _entry(sentence) for key, sentence in zip(keys, sentences, strict=True) if key not in known}
        timings = _timings(len(texts), len(sentences))
        if job.spec.options.timing is Timing.BATCHES:
            timings = _by_phase(timings)
        return Answers([_translation(text) for text in texts], learned, timings)


def _sentences(text: str) -> list[str]:
    return [f"{sentence}." for part in text.split(".") if (sentence := part.strip())]


def _entry(sentence: str) -> SegmentTranslation:
    tokens = len(sentence) // 4
    return SegmentTranslation((sentence[::-1],), (-0.3,), -0.3 * tokens, tokens, tokens)


def _translation(text: str) -> Translation:
    sentences = _sentences(text)
    segments, start = [], 0
    for sentence in sentences:
        stop = start + len(sentence)
        segments.append(AlignedSegment(start, stop, start, stop))
        start = stop + 1
    tokens = len(text) // 4
    return Translation(
        text=text[::-1],
        log_prob=-0.3 * tokens,
        num_segments=len(sentences),
        num_reused=0,
        num_source_tokens=tokens,
        num_target_tokens=tokens,
        segments=tuple(segments),
    )


def _by_phase(timings: Sequence[StepTiming]) -> list[StepTiming]:
    """As a stopwatch in the mode `batches` sums them: one for each phase."""
    sums: dict[str, StepTiming] = {}
    for timing in timings:
        known = sums.get(timing.phase)
        sums[timing.phase] = (
            replace(timing, calls=known.calls + 1, seconds=known.seconds + timing.seconds) if known else timing
        )
    return list(sums.values())


def _timings(texts: int, sentences: int) -> list[StepTiming]:
    """The model calls of a batch, fewer where it is small; no two take as long, since equal numbers need less room."""
    timings = [StepTiming("segment", 0, texts, 0, 0, 0.001), StepTiming("tokenize", 0, sentences, 0, 0, 0.002)]
    share = min(1.0, sentences / (2 * SLOTS))
    timings += [StepTiming("encode", 0, 2, 80, 0, 0.002)] * max(1, round(share * ENCODES))
    steps = max(1, round(share * DECODES))
    timings += [StepTiming("decode", step % 60, SLOTS, SLOTS, step % 60, 0.003) for step in range(steps)]
    timings += [StepTiming("detokenize", 0, sentences // DETOKENIZES, 0, 0, 0.001)] * DETOKENIZES
    return [replace(timing, seconds=timing.seconds * random.uniform(0.5, 2.0)) for timing in timings]
