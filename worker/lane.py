"""A lane: one thread of a worker, with an engine and KV buffers of its own for each model and task that it met."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jobs.errors import ModelError
from jobs.spec import JobSpec
from worker.engine.tasks.pair_scoring import PairScorer
from worker.engine.tasks.reranking import Reranker
from worker.engine.tasks.scoring import Scorer
from worker.engine.tasks.translation import Translator
from worker.warm import MAX_WARM, WarmCausal, WarmModel, WarmModels, WarmTranslation

Engine = Translator | Scorer | PairScorer | Reranker
Made = TypeVar("Made", Translator, Scorer, PairScorer, Reranker)


class Buffers(Protocol):
    """What a lane holds for an engine."""

    @property
    def num_bytes(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    @property
    def reuses(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Opened:
    """An engine, and the model that it was made of."""

    model: WarmModel
    engine: Engine


class Lane:
    """One thread's share: an engine, with its buffers, for each model and task that it met."""

    def __init__(self, number: int, models: WarmModels) -> None:
        self.number = number
        self._models = models
        self._engines: OrderedDict[tuple[str, type[Engine]], _Opened] = OrderedDict()  # by revision and kind
        self._used: WarmModel | None = None  # what was opened last

    def open(self, spec: JobSpec) -> None:
        """Have a job's model ready. Raises NotFoundError and ModelError where it cannot be."""
        self._used = self._models.open(spec)

    def changed_files(self) -> list[str]:
        """The names of those files of the model that was used last which have changed since it was opened. Whatever it
        has computed since its last use began may come from other weights than the job's."""
        return self._used.files.changed() if self._used else []

    def translator(self, spec: JobSpec) -> Translator:
        """The warm engine of a job that translates."""
        model = self._translation(spec)
        return self._engine(spec, model, Translator, lambda: Translator(model.model, model.tokenizer))

    def pair_scorer(self, spec: JobSpec) -> PairScorer:
        """The warm engine of a job that scores pairs."""
        model = self._translation(spec)
        return self._engine(spec, model, PairScorer, lambda: PairScorer(model.model, model.tokenizer))

    def scorer(self, spec: JobSpec) -> Scorer:
        """The warm engine of a job that scores texts."""
        model = self._causal(spec)
        return self._engine(spec, model, Scorer, lambda: Scorer(model.model, model.tokenizer))

    def reranker(self, spec: JobSpec) -> Reranker:
        """The warm engine of a job that reranks."""
        model = self._causal(spec)
        return self._engine(spec, model, Reranker, lambda: Reranker(model.model, model.tokenizer))

    @property
    def warm(self) -> tuple[str, ...]:
        """The revisions of the models that any lane of this process has used lately."""
        return self._models.revisions()

    @property
    def buffers(self) -> list[Buffers]:
        """Of every engine."""
        return [_buffers(opened.engine) for opened in list(self._engines.values())]

    def _engine(self, spec: JobSpec, model: WarmModel, kind: type[Made], make: Callable[[], Made]) -> Made:
        key = (spec.model_revision, kind)
        found = self._engines.get(key)
        engine = found.engine if found and found.model is model else None  # the files may have been read again
        if not isinstance(engine, kind):
            engine = make()
            self._engines[key] = _Opened(model, engine)
            while len(self._engines) > MAX_WARM:
                self._engines.popitem(last=False)
        self._engines.move_to_end(key)
        return engine

    def _translation(self, spec: JobSpec) -> WarmTranslation:
        self._used = model = self._models.open(spec)
        if not isinstance(model, WarmTranslation):
            raise ModelError(f"{spec.model} is no translation model, and the job was made for one: cancel the job")
        return model

    def _causal(self, spec: JobSpec) -> WarmCausal:
        self._used = model = self._models.open(spec)
        if not isinstance(model, WarmCausal):
            raise ModelError(f"{spec.model} is no causal language model, and the job was made for one: cancel the job")
        return model


def _buffers(engine: Engine) -> Buffers:
    match engine:
        case Translator():
            return engine.decoder
        case PairScorer():
            return engine
        case Scorer() | Reranker():
            return engine.reader
