"""
Which folder a model name means: a folder of the user's models, else a bundled model, else a folder of that path.

Knows: names, folders. Does not know: what is in a folder. Needs only the standard library: `submit` asks for names, and
has to start at once.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import NotFoundError, meant
from jobs.tasks.score import SCORE
from jobs.tasks.translate import TRANSLATE
from worker.models.export_advice import ADD
from worker.models.model_folder import ModelFolder

DEFAULT_MODEL, DEFAULT_CAUSAL = TRANSLATE.default_model, SCORE.default_model
BUNDLED = {
    DEFAULT_MODEL: Path(__file__).parents[1] / "demo" / "en-zh",
    DEFAULT_CAUSAL: Path(__file__).parents[1] / "demo" / "lm",
}


def find_model(name: str, models_dir: Path, also: Sequence[str] = ()) -> ModelFolder:
    """The folder that `name` means; raise NotFoundError that says which names there are. `also`: words that the caller
    takes in place of a name, and that may have been meant."""
    if is_model_name(name):
        for folder in (models_dir / name, BUNDLED.get(name)):
            if folder is not None and os.path.isdir(folder):
                return ModelFolder(name, folder)
    # os.path.isdir, which is false for what cannot be a path: Path.is_dir raises where a name is too long.
    if name and os.path.isdir(name):
        path = Path(os.path.abspath(name))  # a link stays a link: it may point elsewhere tomorrow
        return ModelFolder(str(path), path)
    raise NotFoundError(_not_found(name, models_dir, also))


def list_models(models_dir: Path) -> list[ModelFolder]:
    """The user's models and the bundled ones that they do not hide, by name."""
    folders = {name: folder for name, folder in BUNDLED.items() if folder.is_dir()}
    if models_dir.is_dir():
        own = (entry for entry in models_dir.iterdir() if is_model_name(entry.name) and entry.is_dir())
        folders.update((entry.name, entry) for entry in own)
    return [ModelFolder(name, folders[name]) for name in sorted(folders)]


def is_bundled(path: Path) -> bool:
    """Whether the folder comes with kvjobs."""
    return path in BUNDLED.values()


def is_model_name(name: str) -> bool:
    """Whether `name` can be the name of a model's folder: a single path component that is not hidden."""
    return name != "" and name == Path(name).name and not name.startswith(".") and "\0" not in name


def _not_found(name: str, models_dir: Path, also: Sequence[str]) -> str:
    known = [folder.name for folder in list_models(models_dir)]
    if name in BUNDLED:
        return (
            f"the bundled model {name} is not in this installation ({BUNDLED[name]} is missing): install kvjobs again"
        )
    if not is_model_name(name):
        return (
            f"there is no folder {name!r}. To take a checkpoint from the Hugging Face hub or from a folder, run "
            f"`{ADD} SOURCE`, then name the model that it makes (known: {', '.join(known) or 'none'})"
        )
    return (
        f"there is no model {name!r}{meant(name, [*known, *also])}; known: {', '.join(known) or 'none'} (folders of "
        f"{models_dir}, and bundled models); the path of a model folder works too, and `{ADD} SOURCE` makes a model"
    )
