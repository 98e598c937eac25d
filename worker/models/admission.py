"""Whether a model can do what a job asks of it: asked at submit, where a person can still change the question."""

from pathlib import Path

from jobs.spec import JobSpec, Task, TranslateOptions
from worker.engine.network import open_network
from worker.models.halves import advise
from worker.models.registry import DEFAULT_MODEL, check_files, find_model, read_manifest
from worker.text.marian import MarianTokenizer


def admit(task: Task, name: str | None, models_dir: Path, options: TranslateOptions) -> JobSpec:
    """The spec of a job: the model as it is on disk now, and options that it can follow.

    Raises NotFoundError for a name that means no model, ModelError for a folder that holds none that can run,
    SpecError for an option that this one cannot follow.
    """
    folder = find_model(name or DEFAULT_MODEL, models_dir)
    check_files(folder)
    MarianTokenizer.open(folder.path).check_language(options.target_language)
    network = open_network(folder.path)
    network.check_cache(options.cache)
    return JobSpec(task=task, model=folder.name, model_revision=folder.revision(), options=options)


def advise_queue(name: str | None, models_dir: Path, queue: str) -> str | None:
    """What to say of a model in a queue, if anything; raise SpecError where it has no business there."""
    folder = find_model(name or DEFAULT_MODEL, models_dir)
    manifest = read_manifest(folder)
    return advise(folder.name, manifest, queue) if manifest else None
