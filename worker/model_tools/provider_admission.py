"""Who can do a job: each provider of its order is asked at submit, while the user can still change the options.

Knows: the order, counterparts, what each provider says of a job. Does not know: how onnx is checked
(`worker.model_tools.admission`), servers: no provider is connected to.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from jobs.provider_settings.counterparts import parse_counterparts
from jobs.providers import LLAMACPP, ONNX, Choice, ProviderOrder
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.kinds import KINDS, Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.task import Task
from jobs.text.formatting import visible
from worker.model_tools.admission import admit, with_method
from worker.models.contents.present_files import kind_of
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.registry import find_model
from worker.providers.protocol import ProviderJob
from worker.providers.registry import Providers, provider_class, provider_names

LONGEST_NAME = 256  # of a model at a server, in characters


def admit_order(
    task: Task, name: str | None, options: Options, asked: ProviderOrder | None, settings: Settings, *, fallback: bool
) -> JobSpec:
    """The spec of a job with its providers: those that cannot do it have `skipped`; without `fallback` only the first
    is asked. `asked` is None where the settings decide. Without a name: the bundled model for the task.

    Raises SpecError for a provider that does not exist, and where none can do the job; what `admit` raises where onnx
    alone is asked.
    """
    model, folder = name or KINDS[task].default_model, _find(name or KINDS[task].default_model, settings)
    if isinstance(options, RerankOptions):
        options = _with_method(options, folder)
    order = replace(asked or default_order(task, folder, settings), fallback=fallback)
    is_local = {choice.name: provider_class(choice.name).is_local for choice in order.choices}
    candidates = _with_counterparts(order, folder, model, settings)
    considered = candidates if fallback else candidates[:1]
    providers = Providers(WorkerArguments(settings))
    spec = JobSpec(
        task=task, model=folder.name if folder else model, model_revision="", options=options, providers=order
    )
    found: dict[str, Choice | KvjobsError] = {}
    # First the providers that run a folder: its model decides whether the documents are pairs.
    for choice in sorted(considered, key=lambda choice: not is_local[choice.name]):
        try:
            if is_local[choice.name]:
                decided = any(isinstance(checked, Choice) for checked in found.values())
                found[choice.name], spec = _check_local(spec, choice, folder, settings, providers, decided=decided)
            else:
                found[choice.name] = _check_server(spec, choice, providers)
        except (SpecError, NotFoundError, ModelError) as error:
            found[choice.name] = error
    checked = [_skipped(choice, found[choice.name]) for choice in considered]
    if all(choice.skipped for choice in checked):
        raise _none_can(considered, found)
    spec = replace(spec, providers=replace(order, choices=(*checked, *candidates[len(considered) :])))
    if spec.model_revision:
        return spec
    # No provider runs the model's folder: the first one, and the model's name there, are the model.
    first = spec.providers.usable[0]
    identity = f"{first.name}\n{first.model or spec.model}"
    return replace(spec, model_revision=hashlib.sha256(identity.encode()).hexdigest())


def _find(name: str, settings: Settings) -> ModelFolder | None:
    """The model's folder, if it is on this machine."""
    try:
        return find_model(name, settings.models_dir)
    except NotFoundError:
        return None


def _with_method(options: RerankOptions, folder: ModelFolder | None) -> RerankOptions:
    """The options with a method: if no model on this machine decides it, the method of causal models."""
    if options.method is None and folder is not None:
        with contextlib.suppress(ModelError):  # damaged: the check of the model says so
            return with_method(options, folder.name, kind_of(folder))
    return replace(options, method=options.method or Method.QUERY_LIKELIHOOD)


def default_order(task: Task, folder: ModelFolder | None, settings: Settings) -> ProviderOrder:
    """The order of the settings; for a GGUF file that is kept as it is, with llamacpp in the place of onnx."""
    order = settings.provider_order(task)
    if folder is None or not _is_gguf(folder):
        return order
    others = [choice for choice in order.choices if choice.name != LLAMACPP]
    named = next((choice for choice in order.choices if choice.name == LLAMACPP), Choice(LLAMACPP))
    if any(choice.name == ONNX for choice in others):
        return replace(order, choices=tuple(named if choice.name == ONNX else choice for choice in others))
    return order


def _is_gguf(folder: ModelFolder) -> bool:
    try:
        manifest = read_manifest(folder)
    except ModelError:  # damaged: the check of the model says so
        return False
    return manifest is not None and manifest.is_gguf


def _with_counterparts(
    order: ProviderOrder, folder: ModelFolder | None, model: str, settings: Settings
) -> tuple[Choice, ...]:
    """The choices with the name of the model at each provider: as asked, else of the settings. A folder that was given
    by its path has no name but its own: no server gets the path."""
    counterparts = parse_counterparts(settings.counterparts)
    names = counterparts.get(folder.name if folder else model) or (counterparts.get(folder.path.name) if folder else {})
    known = provider_names()
    if unknown := sorted(set(names or {}) - set(known)):
        raise SpecError(
            f"counterparts of {model} names the provider {unknown[0]}; the providers are {', '.join(known)}"
        )

    def named(choice: Choice) -> Choice:
        if choice.name == ONNX or choice.model is not None:
            return choice
        own = folder.path.name if folder and folder.name == str(folder.path) else None
        default = None if provider_class(choice.name).is_local else own
        return replace(choice, model=(names or {}).get(choice.name, default))

    return tuple(map(named, order.choices))


def _check_local(
    spec: JobSpec,
    choice: Choice,
    folder: ModelFolder | None,
    settings: Settings,
    providers: Providers,
    *,
    decided: bool,
) -> tuple[Choice, JobSpec]:
    """The choice with the revision of a folder of its own, and the spec with what the model on disk decides. Raises
    SpecError where the provider cannot do the job, NotFoundError and ModelError where its model is not usable."""
    if why := providers.get(choice.name).why_not(ProviderJob(spec, choice)):
        raise SpecError(why)
    if choice.name == ONNX and folder and _is_gguf(folder):
        raise SpecError(f"{spec.model} is a GGUF file, which {LLAMACPP} runs: leave --providers out, or name it there")
    own = admit(spec.task, choice.model or spec.model, settings.models_dir, spec.options)
    if decided and own.options != spec.options:
        raise SpecError(f"{own.model} reads other documents than the model of the provider before it: texts, or pairs")
    if choice.model is not None:
        return replace(choice, model=own.model, revision=own.model_revision), replace(spec, options=own.options)
    return choice, replace(own, providers=spec.providers)


def _check_server(spec: JobSpec, choice: Choice, providers: Providers) -> Choice:
    """The choice. Raises SpecError where the server's API cannot do the job."""
    _check_name(choice.model or spec.model)
    if why := providers.get(choice.name).why_not(ProviderJob(spec, choice)):
        raise SpecError(why)
    return choice


def _skipped(choice: Choice, found: Choice | KvjobsError) -> Choice:
    return found if isinstance(found, Choice) else replace(choice, skipped=_reason(found))


def _check_name(name: str) -> None:
    """Raise SpecError for a name that a server would not have, and that could control a terminal or hide in a page."""
    if visible(name) != name or not name.strip() or len(name) > LONGEST_NAME:
        raise SpecError(f"{visible(name)[:LONGEST_NAME]!r} cannot be the name of a model at a server")


def _none_can(considered: tuple[Choice, ...], found: Mapping[str, Choice | KvjobsError]) -> KvjobsError:
    """One error with the reasons of all providers; if only onnx was asked, the error of onnx itself."""
    errors = {name: error for name, error in found.items() if isinstance(error, KvjobsError)}
    if len(considered) == 1:
        (choice,) = considered
        why = errors[choice.name]
        return why if choice.name == ONNX else SpecError(f"{choice} cannot do this job: {why}")
    reasons = (f"{choice.name}: {_reason(errors[choice.name])}" for choice in considered)
    return SpecError(f"no provider can do this job; {'; '.join(reasons)}")


def _reason(error: KvjobsError) -> str:
    return str(error).rstrip(".")
