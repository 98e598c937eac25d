"""Who can do a job: each provider of its order is asked at submit, while the user can still change the options.

Knows: the order, counterparts, what each provider says of a job. Does not know: how onnx is checked
(`worker.model_tools.admission`), servers: no provider is connected to.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from jobs.provider_settings.counterparts import parse_counterparts
from jobs.providers import ONNX, Choice, ProviderOrder
from jobs.settings import Settings
from jobs.spec import JobSpec, Options, Task
from jobs.visible_text import visible
from worker.model_tools.admission import admit
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.registry import default_model, find_model
from worker.providers.protocol import ProviderJob
from worker.providers.registry import Providers, provider_class, provider_names

LLAMACPP = "llamacpp"  # the provider, and below the layout, of a folder whose model only it runs
GGUF = "gguf"
LONGEST_NAME = 256  # of a model at a server, in characters


def admit_order(
    task: Task, name: str | None, options: Options, asked: ProviderOrder | None, settings: Settings, *, fallback: bool
) -> JobSpec:
    """The spec of a job with its providers: those that cannot do it have `skipped`; without `fallback` only the first
    is asked. `asked` is None where the settings decide. Without a name: the bundled model for the task.

    Raises SpecError for a provider that does not exist, and where none can do the job; what `admit` raises where onnx
    alone is asked.
    """
    model, folder = name or default_model(task), _find(name or default_model(task), settings)
    order = replace(asked or _default_order(task, folder, settings), fallback=fallback)
    for choice in order.choices:
        provider_class(choice.name)
    candidates = _with_counterparts(order, folder, model, settings)
    considered = candidates if fallback else candidates[:1]
    spec = JobSpec(
        task=task, model=folder.name if folder else model, model_revision="", options=options, providers=order
    )
    problems: dict[str, KvjobsError] = {}
    if any(choice.name == ONNX for choice in considered):
        try:
            # The model that onnx runs decides whether the documents are pairs.
            spec = replace(admit(task, model, settings.models_dir, options), providers=order)
        except (SpecError, NotFoundError, ModelError) as error:
            problems[ONNX] = error
    providers, checked = Providers(WorkerArguments(settings)), list[Choice]()
    for choice in considered:
        try:
            if choice.name in problems:
                raise problems[choice.name]
            checked.append(_check(spec, choice, settings, providers))
        except (SpecError, NotFoundError, ModelError) as error:
            problems[choice.name] = error
            checked.append(replace(choice, skipped=str(error).rstrip(".")))
    if len(problems) == len(considered):
        raise _none_can(considered, problems)
    order = replace(order, choices=(*checked, *candidates[len(considered) :]))
    return replace(spec, providers=order, model_revision=_revision(spec, folder, order.usable[: len(considered)]))


def _find(name: str, settings: Settings) -> ModelFolder | None:
    """The model's folder, if it is on this machine."""
    try:
        return find_model(name, settings.models_dir)
    except NotFoundError:
        return None


def _default_order(task: Task, folder: ModelFolder | None, settings: Settings) -> ProviderOrder:
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
    return manifest is not None and manifest.layout == GGUF


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


def _check(spec: JobSpec, choice: Choice, settings: Settings, providers: Providers) -> Choice:
    """The choice, with the revision of a folder of its own. Raises SpecError where the provider cannot do the job,
    NotFoundError where its folder is missing, ModelError for one that cannot be read."""
    provider = providers.get(choice.name)
    if not provider.is_local:
        _check_name(choice.model or spec.model)
    elif choice.model is not None and choice.name != ONNX:
        own = find_model(choice.model, settings.models_dir)
        choice = replace(choice, model=own.name, revision=own.revision())
    if why := provider.why_not(ProviderJob(spec, choice)):
        raise SpecError(why)
    return choice


def _check_name(name: str) -> None:
    """Raise SpecError for a name that a server would not have, and that could control a terminal or hide in a page."""
    if visible(name) != name or not name.strip() or len(name) > LONGEST_NAME:
        raise SpecError(f"{visible(name)[:LONGEST_NAME]!r} cannot be the name of a model at a server")


def _none_can(considered: tuple[Choice, ...], problems: dict[str, KvjobsError]) -> KvjobsError:
    """One error that says why; that of onnx itself where onnx alone was asked."""
    if len(considered) == 1:
        (choice,) = considered
        why = problems[choice.name]
        return why if choice.name == ONNX else SpecError(f"{choice} cannot do this job: {why}")
    return SpecError(f"no provider can do this job; {'; '.join(_reasons(considered, problems))}")


def _reasons(considered: tuple[Choice, ...], problems: dict[str, KvjobsError]) -> Iterator[str]:
    for choice in considered:
        yield f"{choice.name}: {str(problems[choice.name]).rstrip('.')}"


def _revision(spec: JobSpec, folder: ModelFolder | None, usable: tuple[Choice, ...]) -> str:
    """sha256 over the model's files where a provider runs them; else over the first provider and its model's name."""
    runs_folder = [choice for choice in usable if provider_class(choice.name).is_local and choice.model is None]
    if folder and runs_folder:
        return spec.model_revision or folder.revision()  # read once: the files may be gigabytes
    return hashlib.sha256(f"{usable[0].name}\n{usable[0].model or spec.model}".encode()).hexdigest()
