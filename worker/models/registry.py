"""Which folder a model name means, and whether the folder holds a model.

Knows: names, folders, files. Does not know: what is inside a graph. Imports neither onnxruntime nor numpy: `submit`
asks for names too, and has to start at once.

A name means a folder of the user's models, else a bundled model, else a folder of that path.
"""

import difflib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.errors import ModelError, NotFoundError

DEFAULT_MODEL = "demo-en-zh"
BUNDLED = {DEFAULT_MODEL: Path(__file__).parents[1] / "demo" / "en-zh"}

# The same names as in `worker.models.layouts`, which needs numpy; a test compares them.
ENCODER = "encoder_model.onnx"
MERGED = "decoder_model_merged.onnx"
DECODER = "decoder_model.onnx"
EXPORT = "optimum-cli export onnx --model MODEL --task text2text-generation-with-past FOLDER"

_CHUNK = 1 << 20
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on disk."""

    name: str  # as a job names it: a name, or the absolute path of the folder
    path: Path

    def revision(self) -> str:
        """sha256 over the names and contents of the files that decide results; reads each of them."""
        digest = hashlib.sha256()
        for file in _deciding_files(self.path):
            digest.update(f"{file.relative_to(self.path).as_posix()}\0{file.stat().st_size}\0".encode())
            with _open(file) as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
        return digest.hexdigest()


def find_model(name: str, models_dir: Path) -> ModelFolder:
    """The folder that `name` means; raise NotFoundError that says which names there are."""
    if _is_plain(name):
        for folder in (models_dir / name, BUNDLED.get(name)):
            if folder is not None and os.path.isdir(folder):
                return ModelFolder(name, folder)
    # os.path.isdir, which is false for what cannot be a path: Path.is_dir raises where a name is too long.
    if name and os.path.isdir(name):
        path = Path(os.path.abspath(name))  # a link stays a link: it may point elsewhere tomorrow
        return ModelFolder(str(path), path)
    raise NotFoundError(_not_found(name, models_dir))


def list_models(models_dir: Path) -> list[ModelFolder]:
    """The user's models and the bundled ones that they do not hide, by name."""
    folders = {name: folder for name, folder in BUNDLED.items() if folder.is_dir()}
    if models_dir.is_dir():
        own = (entry for entry in models_dir.iterdir() if _is_plain(entry.name) and entry.is_dir())
        folders.update((entry.name, entry) for entry in own)
    return [ModelFolder(name, folders[name]) for name in sorted(folders)]


def check_files(folder: ModelFolder) -> None:
    """Raise ModelError that names the first file which a translation model needs and this folder lacks."""
    path = folder.path
    _require(path / "config.json", "the model's configuration, which the export writes")
    graphs = path if (path / ENCODER).is_file() or not (path / "onnx").is_dir() else path / "onnx"
    _require(graphs / ENCODER, "the encoder")
    if not (graphs / MERGED).is_file():
        _require(graphs / DECODER, f"the decoder (or {MERGED}, which does the work of both decoders)")
    for name in ("source.spm", "target.spm", "vocab.json"):
        _require(path / name, "it belongs to the Marian tokenizer, which the export copies")
    for file in _deciding_files(path):
        refuse_hollow(file)


def refuse_hollow(file: Path) -> None:
    """Raise ModelError for a file that is empty, or the pointer that Git leaves in the place of a large one."""
    with _open(file) as content:
        start = content.read(len(_LFS_POINTER))
    if not start:
        raise ModelError(f"{file} is empty: download or export it again")
    if start == _LFS_POINTER:
        raise ModelError(f"{file} is a Git LFS pointer, not the file itself: run `git lfs pull` where it came from")


def _is_plain(name: str) -> bool:
    """Whether `name` is that of a folder right below another, and nothing more clever."""
    return name != "" and name == Path(name).name and not name.startswith(".") and "\0" not in name


def _deciding_files(path: Path) -> list[Path]:
    """Graphs, their external weights, configurations and vocabularies; not what merely lies beside them."""
    return sorted(
        (file for place in (path, path / "onnx") for file in _files(place) if _decides(file.name)),
        key=lambda file: file.relative_to(path).as_posix(),
    )


def _files(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (file for file in place.iterdir() if file.is_file() and not file.name.startswith("."))


def _decides(name: str) -> bool:
    # External weights are called x.onnx_data (Optimum), x.onnx.data (torch), x.onnx_data_1 or x.data.
    return ".onnx" in name or name.endswith((".json", ".spm", ".data"))


def _require(file: Path, what: str) -> None:
    if not file.is_file():
        raise ModelError(
            f"{file} is missing: {what}. A translation model is a folder of config.json, {ENCODER}, {MERGED} (or "
            f"{DECODER}, with or without decoder_with_past_model.onnx), source.spm, target.spm and vocab.json, "
            f"as `{EXPORT}` writes it"
        )


def _open(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error


def _not_found(name: str, models_dir: Path) -> str:
    known = [folder.name for folder in list_models(models_dir)]
    if not _is_plain(name):
        return (
            f"there is no folder {name!r}. kvjobs downloads nothing: export the model with `{EXPORT}` and name that "
            f"folder, or put it into {models_dir} and name it (known: {', '.join(known) or 'none'})"
        )
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return (
        f"there is no model {name!r}: {suggestion}Known: {', '.join(known) or 'none'} "
        f"(folders of {models_dir}, and bundled models; the path of a model folder works too)"
    )
