"""Processing a batch of texts with the engine of the job's task."""

from collections.abc import Callable, Sequence
from typing import Protocol

from jobs.outcome import Score, SegmentTranslation
from jobs.spec import JobSpec, RerankOptions, ScoreOptions, TranslateOptions
from worker.engine.tasks.batch_result import BatchResult
from worker.engine.tasks.score_reuse import score_with_reuse
from worker.lane import Lane


class KeyedMemory(Protocol):
    """Known results of segments and documents, and the digest of the model and options that they depend on."""

    @property
    def digest(self) -> bytes: ...
    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]: ...
    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]: ...


def process_batch(
    lane: Lane, spec: JobSpec, texts: Sequence[str], memory: KeyedMemory, should_stop: Callable[[], bool]
) -> BatchResult:
    """Translate, score or rerank each text, as the job asks.

    Raises ModelError and SpecError where the model cannot do that for any text, Stopped where `should_stop` says so.
    """
    match spec.options:
        case TranslateOptions() as options:
            return lane.translator(spec).translate(
                texts, options, memory=memory, memory_digest=memory.digest, should_stop=should_stop
            )
        case ScoreOptions(pairs=True) as options:
            return score_with_reuse(lane.pair_scorer(spec), texts, options, memory, should_stop)
        case ScoreOptions() as options:
            return score_with_reuse(lane.scorer(spec), texts, options, memory, should_stop)
        case RerankOptions() as options:
            return lane.reranker(spec).rerank(texts, options, should_stop=should_stop)
