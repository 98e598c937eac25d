"""Processing a batch of texts with the engine of the job's task."""

from collections.abc import Callable, Sequence

from jobs.spec import JobSpec, RerankOptions, ScoreOptions, TranslateOptions
from worker.engine.tasks.batch_result import BatchResult
from worker.engine.tasks.result_memory import ResultMemory
from worker.engine.tasks.score_reuse import score_with_reuse
from worker.lane import Lane


def process_batch(
    lane: Lane, spec: JobSpec, texts: Sequence[str], memory: ResultMemory, should_stop: Callable[[], bool]
) -> BatchResult:
    """Translate, score or rerank each text, as the job asks.

    Raises ModelError and SpecError where the model cannot do that for any text, Stopped where `should_stop` says so.
    """
    match spec.options:
        case TranslateOptions() as options:
            return lane.translator(spec).translate(texts, options, memory=memory, should_stop=should_stop)
        case ScoreOptions(pairs=True) as options:
            return score_with_reuse(lane.pair_scorer(spec), texts, options, memory, should_stop)
        case ScoreOptions() as options:
            return score_with_reuse(lane.scorer(spec), texts, options, memory, should_stop)
        case RerankOptions() as options:
            return lane.reranker(spec).rerank(texts, options, should_stop=should_stop)
