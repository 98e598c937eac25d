"""Whether a model can run a job: checked at submit, while the user can still change the options."""

import dataclasses
from pathlib import Path

from jobs.errors import SpecError
from jobs.providers import ONNX
from jobs.routing.plan import AUTO
from jobs.spec import JobSpec
from jobs.system.requirements import is_installed
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kind import Kind
from jobs.tasks.kinds import KINDS, Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import Bos, ScoreOptions, Window
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from worker.engine.causal.open import LIBRARY, open_causal_model, open_causal_tokenizer, open_chat_tokenizer
from worker.engine.cross_encoder.model import CrossEncoder
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.tasks.generation import PromptContinuer
from worker.engine.tasks.pair_scoring import PairScorer
from worker.engine.tasks.rerank.pair_reranking import PairReranker
from worker.engine.tasks.rerank.reranking import Reranker
from worker.engine.tasks.rerank.yes_no_reranking import YesNoReranker
from worker.engine.tasks.scoring import Scorer
from worker.graphs.precision import Precision
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.contents.present_files import kind_of
from worker.models.contents.required_files import check_files
from worker.models.departures.departures import departures_in
from worker.models.file_names import GGUF_MODEL
from worker.models.half_precision import advise
from worker.models.manifest import is_gguf
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model
from worker.text.tokenizer_trial import try_tokenizer
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

_CAUSAL_METHODS = (Method.QUERY_LIKELIHOOD, Method.PERPLEXITY, Method.YES_NO)


def admit(task: Task, name: str | None, models_dir: Path, options: Options) -> JobSpec:
    """The spec of a job, with the revision of the model on disk; `options.pairs`, and a method that the options leave
    open, follow from the kind of the model.

    Raises NotFoundError for a name without a model, ModelError for a folder without a model that can run, SpecError for
    a task that models of this kind do not do, and for an option that this model does not support.
    """
    of_task = KINDS[task]
    folder = find_model(name or of_task.default_model, models_dir, (AUTO,) if of_task.is_between_languages else ())
    kind = kind_of(folder)
    _check_task(of_task, folder, kind)
    check_files(folder)
    if isinstance(options, ScoreOptions):
        options = dataclasses.replace(options, pairs=kind is ModelKind.TRANSLATION)
    if isinstance(options, RerankOptions):
        options = with_method(options, folder.name, kind)
    match options:
        case TranslateOptions():
            tokenizer = open_translation_tokenizer(folder.path).for_source(options.source_language)
            tokenizer.check_language(options.target_language)
            model = open_seq2seq_model(folder.path)
            model.check_cache(options.cache)
            model.generation.with_options(options, max_positions=model.max_positions)
            if options.alignments and model.new_attention_reader() is None:
                raise SpecError(
                    f"{folder.name} is an export, whose graphs do not tell where the model attends, and --alignments "
                    "asks for it: add the model's checkpoint, or leave it out"
                )
        case ScoreOptions(pairs=True):
            _check_pairs(folder, options)
        case RerankOptions(method=Method.CROSS_ENCODER):
            model_of_pairs = CrossEncoder.open(folder.path)
            reranker = PairReranker(model_of_pairs, open_pair_reader(folder.path, model_of_pairs))
            reranker.rerank([], options, RunContext())
        case _:
            _check_causal(folder, options)
    return JobSpec(task=task, model=folder.name, model_revision=folder.revision(), options=options)


def with_method(options: RerankOptions, name: str, kind: ModelKind) -> RerankOptions:
    """The options with the method of the model's kind where they leave it open. Raises SpecError for a method that
    models of this kind do not have."""
    methods = (Method.CROSS_ENCODER,) if kind is ModelKind.CROSS_ENCODER else _CAUSAL_METHODS
    method = options.method or methods[0]
    if method not in methods:
        raise SpecError(
            f"the method {method} needs another kind of model, and {name} is {kind.noun}: leave --method out, or use "
            f"--method {', '.join(methods)}"
        )
    return dataclasses.replace(options, method=method)


def advise_job(spec: JobSpec, models_dir: Path, queue: str) -> list[str]:
    """Warnings about the model of a job, a sentence each; none where onnx does not run it. Raises SpecError where onnx
    cannot run it on the queue's device, and no other provider can do the job."""
    usable = spec.providers.usable if spec.providers.fallback else spec.providers.usable[:1]
    if all(choice.name != ONNX for choice in usable):
        return []
    try:
        first = [
            advice
            for model_spec in spec.models
            for advice in (advise_queue(model_spec.model, models_dir, queue), advise_precision(model_spec, models_dir))
        ]
    except SpecError as error:
        if len(usable) == 1:
            raise
        first = [f"No document will be answered by {ONNX}: {error}."]
    departures = [advice for model_spec in spec.models for advice in advise_departures(model_spec, models_dir)]
    return [*(advice for advice in first if advice), *departures]


def advise_queue(name: str, models_dir: Path, queue: str) -> str | None:
    """A warning about running a model in a queue, if one is due; raise SpecError where it cannot run there."""
    folder = find_model(name, models_dir)
    manifest = read_manifest(folder)
    return advise(folder.name, manifest, queue) if manifest else None


def advise_precision(spec: JobSpec, models_dir: Path) -> str | None:
    """A warning that scores are approximate, for a model in int8; None for translations, which show it themselves."""
    manifest = read_manifest(find_model(spec.model, models_dir))
    if spec.kind.is_between_languages or manifest is None or manifest.precision != Precision.INT8:
        return None
    is_relevance = isinstance(spec.options, RerankOptions) and spec.options.method is Method.CROSS_ENCODER
    what = "scores" if is_relevance else "log-probabilities"
    measured = f" Measured when it was added, {manifest.drift.clause()}." if manifest.drift else ""
    return (
        f"Model {spec.model} is in int8, so its {what} are not those of fp32.{measured} On your documents: "
        f"kvjobs models verify {spec.model} --sample CORPUS"
    )


def advise_departures(spec: JobSpec, models_dir: Path) -> list[str]:
    """Warnings about an export whose graph departs from its configuration, one sentence each."""
    folder = find_model(spec.model, models_dir)
    manifest = read_manifest(folder)
    if kind_of(folder) is not ModelKind.CAUSAL or (manifest is not None and (manifest.is_native or manifest.is_gguf)):
        return []
    known = manifest.departures if manifest else ()
    found = dict.fromkeys((*departures_in(folder.path).warnings(), *known))
    return [f"Model {spec.model} {departure}." for departure in found]


def _check_task(task: Kind, folder: ModelFolder, kind: ModelKind) -> None:
    """Raise SpecError for a task of another kind of model."""
    needed = [ModelKind(name) for name in task.models]
    nouns = " or ".join(other.noun for other in needed)
    if kind not in needed:
        raise SpecError(
            f"the task {task.name} needs {nouns}, and {folder.name} is {kind.noun}: "
            f"name another --model, or none, which takes the bundled {task.default_model}"
        )


def _check_pairs(folder: ModelFolder, options: ScoreOptions) -> None:
    """Raise SpecError for options of causal scoring: log p(target | source) has no windows and no BOS. Scoring no
    documents checks the other options as a worker does."""
    for name, is_set in (
        ("window", options.window is not Window.STRIDE),
        ("stride", options.stride is not None),
        ("bos", options.bos is not Bos.AUTO),
    ):
        if is_set:
            raise SpecError(
                f"{name} is for causal language models, and {folder.name} is {ModelKind.TRANSLATION.noun}, which "
                f"scores the target of a pair: leave --{name.replace('_', '-')} out"
            )
    scorer = PairScorer(open_seq2seq_model(folder.path), open_translation_tokenizer(folder.path))
    scorer.score([], options, RunContext())


def _check_causal(folder: ModelFolder, options: ScoreOptions | RerankOptions | GenerateOptions) -> None:
    """Raise SpecError for options of pair scoring; to process no documents checks the others."""
    if isinstance(options, ScoreOptions) and options.target_language is not None:
        raise SpecError(
            f"target_language is {options.target_language}, and {folder.name} is {ModelKind.CAUSAL.noun}, which has "
            "none: leave --target-language out"
        )
    if is_gguf(folder.path) and not is_installed(LIBRARY):
        GgufNetwork.of(GgufFile.open(folder.path / GGUF_MODEL))
        return  # the workers may have llama.cpp, which this machine need not
    try_tokenizer(folder.path)
    model = open_causal_model(folder.path, vocab_only=True)
    tokenizer = open_causal_tokenizer(folder.path, model)
    match options:
        case ScoreOptions():
            Scorer(model, tokenizer).score([], options, RunContext())
        case RerankOptions(method=Method.YES_NO):
            YesNoReranker(model, tokenizer).rerank([], options, RunContext())
        case RerankOptions():
            Reranker(model, tokenizer).rerank([], options, RunContext())
        case GenerateOptions():
            chat = open_chat_tokenizer(folder.path, tokenizer)
            PromptContinuer(model, tokenizer, chat).generate([], options, RunContext())
