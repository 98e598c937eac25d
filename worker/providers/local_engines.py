"""A provider that computes in this process, and its lane: an engine for each model and task that it has processed."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from jobs.answers import Answers, Unanswered
from jobs.documents import quoted
from jobs.errors import ModelError
from jobs.outcome import Failed, Outcome, SegmentTranslation, Translation
from jobs.routing.language_pair import LanguagePair, language_pair
from jobs.spec import JobSpec
from jobs.store.queue.batches import MAX_BATCHES_AT_ONCE, MAX_TOKENS, Batch, PlannedDocument
from jobs.tasks.document_options import own_value
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.translate import TranslateOptions
from worker.engine.causal.open import open_chat_tokenizer
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.generation import PromptContinuer
from worker.engine.tasks.pair_scoring import PairScorer
from worker.engine.tasks.pivoting import PivotLeg, translate_via
from worker.engine.tasks.rerank.pair_reranking import PairReranker
from worker.engine.tasks.rerank.reranking import Reranker
from worker.engine.tasks.rerank.yes_no_reranking import YesNoReranker
from worker.engine.tasks.scoring import Scorer, score_with_reuse
from worker.engine.tasks.translation import Translator
from worker.loaded_model import LoadedCausal, LoadedCrossEncoder, LoadedModel, LoadedTranslation
from worker.models.model_kind import ModelKind
from worker.providers.protocol import ProviderJob, WarmModel
from worker.warm_models import WarmModels

Engine = Translator | Scorer | PairScorer | Reranker | PairReranker | YesNoReranker | PromptContinuer
OfCausal = TypeVar("OfCausal", Scorer, Reranker, YesNoReranker)
OfTranslation = TypeVar("OfTranslation", Translator, PairScorer)
Loaded = TypeVar("Loaded", LoadedCausal, LoadedCrossEncoder, LoadedTranslation)
Made = TypeVar("Made", Translator, Scorer, PairScorer, Reranker, PairReranker, YesNoReranker, PromptContinuer)
NO_LANGUAGE = "no-target-language"  # error_code of a document that asks for a language which the model lacks
BAD_PREFIX = "bad-prefix"  # of a document whose translation is to begin with what the model cannot write
BATCH_S = 4.0  # the time that a batch may take
MAX_JOBS = 16  # whose speed is remembered


@dataclass(frozen=True, slots=True)
class _Opened:
    """An engine, and the model that it runs."""

    model: LoadedModel
    engine: Engine


class LocalProvider:
    """The models of a process, which its lanes share."""

    is_local: ClassVar[bool] = True

    def __init__(self, models: WarmModels) -> None:
        self._models = models

    def new_lane(self) -> "LocalEngines":
        return LocalEngines(self._models)

    def warm(self) -> Mapping[str, WarmModel]:
        return {revision: WarmModel(name, load_s) for revision, (name, load_s) in self._models.load_times().items()}


class LocalEngines:
    """The engines of one thread, each opened once; the models in them are shared with the other lanes."""

    def __init__(self, models: WarmModels) -> None:
        self._models = models
        self._engines: OrderedDict[tuple[str, type[Engine]], _Opened] = OrderedDict()  # by revision and kind
        self._pace = Pace()
        self._used: tuple[LoadedModel, ...] = ()  # models of the latest batch: one, or the two of a route

    def open(self, job: ProviderJob) -> None:
        """Load the models of a job that are not open. Raises NotFoundError and ModelError where that fails."""
        self._used = tuple(map(self._models.open, job.own_spec.legs))

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        """Translate, score, rerank or continue each document, as the job asks.

        Raises ModelError and SpecError where the model cannot do that for any document, Stopped where the run is
        to end.
        """
        spec, texts = job.own_spec, [document.text for document in documents]
        run = run.for_digest(job.memory_digest(), spec.options.timing, _languages(spec))
        match spec.options:
            case TranslateOptions(routes=(_, *_)) as options:
                return self._translate_via(spec, texts, run, _limits(options, documents))
            case TranslateOptions() as options:
                return self._translate(spec, documents, options, run)
            case ScoreOptions(pairs=True) as options:
                return score_with_reuse(self.of_translation(spec, PairScorer), texts, options, run)
            case ScoreOptions() as options:
                return score_with_reuse(self.of_causal(spec, Scorer), texts, options, run)
            case RerankOptions(method=Method.CROSS_ENCODER) as options:
                return self.pair_reranker(spec).rerank(texts, options, run)
            case RerankOptions(method=Method.YES_NO) as options:
                return self.of_causal(spec, YesNoReranker).rerank(texts, options, run)
            case RerankOptions() as options:
                return self.of_causal(spec, Reranker).rerank(texts, options, run)
            case GenerateOptions() as options:
                return self.continuer(spec).generate(texts, options, run)

    def batches_at_once(self, job: ProviderJob) -> int:
        return self._pace.batches_at_once(job.own_spec)

    def changed_files(self) -> list[str]:
        """The files that have changed since the models that were used last were opened. What they have computed in this
        use may come from other weights than the job's."""
        return [file for model in self._used for file in model.files.changed()]

    def _translate(
        self,
        spec: JobSpec,
        documents: Batch,
        options: TranslateOptions,
        run: RunContext,
    ) -> Answers:
        """Translate documents by one model; those that ask for what it cannot do fail alone."""
        translator = self.of_translation(spec, Translator)
        has_own_language = own_value(documents[0].own_options, "target_language") is not None
        if has_own_language and (why := translator.why_not_into(options)):
            return Answers([Failed(NO_LANGUAGE, why)] * len(documents))
        prefixes = [own_value(document.own_options, "prefix") or options.prefix for document in documents]
        unwritable = {prefix for prefix in set(prefixes) if prefix and translator.forced_prefix(prefix) is None}
        kept = [index for index, prefix in enumerate(prefixes) if prefix not in unwritable]
        started = time.perf_counter()
        answers = translator.translate(
            [documents[index].text for index in kept],
            options,
            run,
            _limits(options, [documents[index] for index in kept]),
            [prefixes[index] for index in kept],
        )
        if translator.is_batch_invariant(options):
            computed = answers.learned.values() if options.reuse else answers.outcomes  # without results of the memory
            tokens = sum(
                translation.num_source_tokens
                for translation in computed
                if isinstance(translation, SegmentTranslation | Translation)
            )
            self._pace.measured(spec, tokens, time.perf_counter() - started)
        if not unwritable:
            return answers
        outcomes: list[Outcome | Unanswered] = [_without_prefix(prefix or "") for prefix in prefixes]
        for index, outcome in zip(kept, answers.outcomes, strict=True):
            outcomes[index] = outcome
        return replace(answers, outcomes=outcomes)

    def _translate_via(
        self, spec: JobSpec, texts: Sequence[str], run: RunContext, limits: Sequence[int | None]
    ) -> Answers:
        """Translate through the two models of a route."""
        legs: list[PivotLeg] = []
        used: list[LoadedModel] = []
        for leg in spec.legs:
            assert isinstance(leg.options, TranslateOptions)
            legs.append(
                PivotLeg(
                    leg.model, self.of_translation(leg, Translator), leg.options, leg.memory_digest(), _languages(leg)
                )
            )
            used += self._used
        self._used = tuple(used)
        first, second = legs
        return translate_via(texts, first, second, run, limits)

    def of_causal(self, spec: JobSpec, kind: type[OfCausal]) -> OfCausal:
        """The engine of a causal model that does the job. Raises ModelError for a model of another kind, as the next
        ones do."""
        model = self._opened(spec, LoadedCausal, ModelKind.CAUSAL)
        return self._engine(spec, model, kind, lambda: kind(model.model, model.tokenizer))

    def of_translation(self, spec: JobSpec, kind: type[OfTranslation]) -> OfTranslation:
        model = self._opened(spec, LoadedTranslation, ModelKind.TRANSLATION)
        return self._engine(spec, model, kind, lambda: kind(model.model, model.tokenizer))

    def pair_reranker(self, spec: JobSpec) -> PairReranker:
        """The engine of a job that reranks with a cross-encoder."""
        model = self._opened(spec, LoadedCrossEncoder, ModelKind.CROSS_ENCODER)
        return self._engine(spec, model, PairReranker, lambda: PairReranker(model.model, model.reader))

    def continuer(self, spec: JobSpec) -> PromptContinuer:
        """The engine of a job that continues prompts."""
        model = self._opened(spec, LoadedCausal, ModelKind.CAUSAL)

        def make() -> PromptContinuer:
            # Here, so that a template that is damaged keeps no text from being scored.
            chat = open_chat_tokenizer(model.files.folder.path, model.tokenizer)
            return PromptContinuer(model.model, model.tokenizer, chat)

        return self._engine(spec, model, PromptContinuer, make)

    @property
    def buffer_stats(self) -> BufferStats:
        return sum((opened.engine.buffer_stats for opened in list(self._engines.values())), BufferStats())

    def _engine(self, spec: JobSpec, model: LoadedModel, kind: type[Made], make: Callable[[], Made]) -> Made:
        key = (spec.model_revision, kind)
        found = self._engines.get(key)
        engine = found.engine if found and found.model is model else None  # else the model has been loaded again
        if not isinstance(engine, kind):
            engine = make()
            self._engines[key] = _Opened(model, engine)
            while len(self._engines) > self._models.limit:
                self._engines.popitem(last=False)
        self._engines.move_to_end(key)
        return engine

    def _opened(self, spec: JobSpec, loaded: type[Loaded], kind: ModelKind) -> Loaded:
        model = self._models.open(spec)
        self._used = (model,)
        if not isinstance(model, loaded):
            raise ModelError(f"{spec.model} is not {kind.noun}, and the job needs one: cancel the job")
        return model


def _limits(options: TranslateOptions, documents: Sequence[PlannedDocument]) -> list[int | None]:
    """The most characters of the translation of each document."""
    return [own_value(document.own_options, "max_chars") or options.max_chars for document in documents]


def _without_prefix(prefix: str) -> Failed:
    return Failed(
        BAD_PREFIX,
        f"the translation is to begin with {quoted(prefix)}, which the model cannot write so: its vocabulary lacks a "
        "part of it, or spells it otherwise",
    )


def _languages(spec: JobSpec) -> LanguagePair | None:
    """What a job of one model translates between; None: it does not translate, or does not say."""
    options = spec.options
    if not isinstance(options, TranslateOptions) or options.routes:
        return None
    return language_pair(spec.model, options.source_language, options.target_language)


class Pace:
    """One lane's seconds for a token, by model and options of a job; from it, how many of its batches are computed as
    one.

    Whatever is computed when a process dies is computed again, so a batch should last seconds. But rows run side by
    side, and towards the end of a batch fewer and fewer of them; and each batch is a transaction.
    """

    def __init__(self) -> None:
        self._seconds: OrderedDict[bytes, float] = OrderedDict()

    def measured(self, spec: JobSpec, tokens: int, seconds: float) -> None:
        """Note how long a batch took. The first batch warms buffers up, so a faster one counts soon; a slower one, at
        once."""
        if not tokens:
            return
        key, new = spec.memory_digest(), seconds / tokens
        self._seconds[key] = max(new, self._seconds.pop(key, new) / 2)
        while len(self._seconds) > MAX_JOBS:
            self._seconds.popitem(last=False)

    def batches_at_once(self, spec: JobSpec) -> int:
        """How many batches last no longer than `BATCH_S` together; at least 1."""
        seconds = self._seconds.get(spec.memory_digest())
        if seconds is None:
            return 1
        batch_s = max(seconds * MAX_TOKENS, BATCH_S / MAX_BATCHES_AT_ONCE)
        return max(1, int(BATCH_S / batch_s))
