"""Which folder a model name means, and whether the folder holds a model.

Knows: names, folders, files. Does not know: what is inside a graph. Imports neither onnxruntime nor numpy: `submit`
asks for names too, and has to start at once.

A name means a folder of the user's models, else a bundled model, else a folder of that path. A folder is a model if it
holds what `kvjobs models add` writes (kvjobs.json, "kv" layout) or what Optimum exports.
"""

import difflib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.errors import ModelError, NotFoundError
from worker.models.manifest import MANIFEST, Manifest

DEFAULT_MODEL = "demo-en-zh"
BUNDLED = {DEFAULT_MODEL: Path(__file__).parents[1] / "demo" / "en-zh"}

# The same names as in `worker.models.layouts`, which needs numpy; a test compares them.
ENCODER = "encoder_model.onnx"
MERGED = "decoder_model_merged.onnx"
DECODER = "decoder_model.onnx"
WITH_PAST = "decoder_with_past_model.onnx"
# And as in `worker.graphs.marian`.
KV_GRAPHS = ("encoder.onnx", "decoder.onnx", "weights.data")
CHECKPOINT = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
TOKENIZER = ("source.spm", "target.spm", "vocab.json")
TOKENIZER_EXTRAS = ("target_vocab.json", "tokenizer_config.json")  # not every model has them
CONFIGURATION = ("config.json", "generation_config.json")
ADD = "kvjobs models add"
EXPORT = "optimum-cli export onnx --model MODEL --task text2text-generation-with-past FOLDER"

_A_MODEL = (
    f"A translation model is a folder that `{ADD} SOURCE` made, or config.json, {ENCODER}, {MERGED} (or {DECODER}, "
    f"with or without {WITH_PAST}), source.spm, target.spm and vocab.json, as `{EXPORT}` writes them"
)
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
    if is_plain(name):
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
        own = (entry for entry in models_dir.iterdir() if is_plain(entry.name) and entry.is_dir())
        folders.update((entry.name, entry) for entry in own)
    return [ModelFolder(name, folders[name]) for name in sorted(folders)]


def read_manifest(folder: ModelFolder) -> Manifest | None:
    """What `kvjobs models add` wrote of the model; None for a folder that it did not make."""
    return Manifest.read(folder.path) if (folder.path / MANIFEST).is_file() else None


def layout_of(folder: ModelFolder) -> str | None:
    """kv, merged, two decoders or no cache, by the names of its files alone; None where they make no layout."""
    if (manifest := read_manifest(folder)) and manifest.layout == "kv":
        return "kv"
    graphs = _export_place(folder.path)
    if not (graphs / ENCODER).is_file():
        return None
    if (graphs / MERGED).is_file():
        return "merged"
    if not (graphs / DECODER).is_file():
        return None
    return "two decoders" if (graphs / WITH_PAST).is_file() else "no cache"


def check_files(folder: ModelFolder) -> None:
    """Raise ModelError that names the first file which a translation model needs and this folder lacks."""
    manifest, path = read_manifest(folder), folder.path
    if manifest is not None and manifest.layout == "kv":
        for name in ("config.json", *KV_GRAPHS, *TOKENIZER):
            _require(path / name, _remedy(path, manifest))
    else:
        _check_export(path)
    for file in _deciding_files(path):
        refuse_hollow(file)


def has_weights(path: Path) -> bool:
    """Whether a folder holds the weights of a checkpoint, in whichever of the known files."""
    return any((path / name).is_file() for name in CHECKPOINT)


def refuse_hollow(file: Path) -> None:
    """Raise ModelError for a file that is empty, or the pointer that Git leaves in the place of a large one."""
    with _open(file) as content:
        start = content.read(len(_LFS_POINTER))
    if not start:
        raise ModelError(f"{file} is empty: download or export it again")
    if start == _LFS_POINTER:
        raise ModelError(f"{file} is a Git LFS pointer, not the file itself: run `git lfs pull` where it came from")


def is_plain(name: str) -> bool:
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


def _check_export(path: Path) -> None:
    graphs = _export_place(path)
    if not (graphs / ENCODER).is_file() and has_weights(path):
        raise ModelError(
            f"{path} is a checkpoint, of which graphs have to be built first: run `{ADD} {path}`, and name the model "
            "that it makes"
        )
    _require(path / "config.json", f"the model's configuration. {_A_MODEL}")
    _require(graphs / ENCODER, f"the encoder. {_A_MODEL}")
    if not (graphs / MERGED).is_file():
        _require(graphs / DECODER, f"the decoder (or {MERGED}, which does the work of both decoders). {_A_MODEL}")
    for name in TOKENIZER:
        _require(path / name, f"it belongs to the Marian tokenizer, which the export copies. {_A_MODEL}")


def _remedy(path: Path, manifest: Manifest) -> str:
    if path in BUNDLED.values():
        return "it comes with kvjobs: install that again"
    return f"`{ADD} {manifest.source}` wrote it: run that again with --force"


def _export_place(path: Path) -> Path:
    """Where Optimum's graphs are: in the folder, or in its folder `onnx`."""
    return path if (path / ENCODER).is_file() or not (path / "onnx").is_dir() else path / "onnx"


def _require(file: Path, what: str) -> None:
    if not file.is_file():
        raise ModelError(f"{file} is missing: {what}")


def _open(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error


def _not_found(name: str, models_dir: Path) -> str:
    known = [folder.name for folder in list_models(models_dir)]
    if not is_plain(name):
        return (
            f"there is no folder {name!r}. To take a checkpoint from the Hugging Face hub or from a folder, run "
            f"`{ADD} SOURCE`, then name the model that it makes (known: {', '.join(known) or 'none'})"
        )
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return (
        f"there is no model {name!r}: {suggestion}Known: {', '.join(known) or 'none'} "
        f"(folders of {models_dir}, and bundled models; the path of a model folder works too, and `{ADD} SOURCE` makes "
        "a model)"
    )
