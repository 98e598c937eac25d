"""Which folder a model name means, and whether the folder holds a model.

Knows: names, folders, files. Does not know: what is inside a graph. Imports neither onnxruntime nor numpy: `submit`
asks for names too, and has to start at once.

A name means a folder of the user's models, else a bundled model, else a folder of that path. A folder is a model if it
holds what `kvjobs models add` writes (kvjobs.json, "kv" layout) or what Optimum exports:

    translation   encoder_model.onnx + decoders, source.spm, target.spm, vocab.json     kv: encoder, decoder
    causal        model.onnx, tokenizer.json                                            kv: body, head
"""

import contextlib
import difflib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from jobs.errors import ModelError, NotFoundError
from jobs.spec import Task
from worker.graphs.architectures import MARIAN, architecture_of
from worker.graphs.file_names import BODY, HEAD, WEIGHTS
from worker.graphs.file_names import DECODER as KV_DECODER
from worker.graphs.file_names import ENCODER as KV_ENCODER
from worker.models.export_advice import ADD, CONVERT, EXPORT, EXPORT_CAUSAL
from worker.models.json_file import read_json_or_empty
from worker.models.layout.causal_config import CONFIG, GENAI_CONFIG, genai_filename
from worker.models.links import refuse_link_out
from worker.models.manifest import MANIFEST, Manifest
from worker.models.model_kind import ModelKind, names_causal
from worker.models.unsupported import refuse_files

DEFAULT_MODEL = "demo-en-zh"
DEFAULT_CAUSAL = "demo-lm"
BUNDLED = {
    DEFAULT_MODEL: Path(__file__).parents[1] / "demo" / "en-zh",
    DEFAULT_CAUSAL: Path(__file__).parents[1] / "demo" / "lm",
}

# The same names as in `worker.models.layout.seq2seq_layout`, which needs numpy; a test compares them.
ENCODER = "encoder_model.onnx"
MERGED = "decoder_model_merged.onnx"
DECODER = "decoder_model.onnx"
WITH_PAST = "decoder_with_past_model.onnx"
CAUSAL = "model.onnx"
KV_GRAPHS = {ModelKind.TRANSLATION: (KV_ENCODER, KV_DECODER, WEIGHTS), ModelKind.CAUSAL: (BODY, HEAD, WEIGHTS)}
CHECKPOINT = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
TOKENIZER = ("source.spm", "target.spm", "vocab.json")
TOKENIZER_EXTRAS = ("target_vocab.json", "tokenizer_config.json")  # not every model has them
CAUSAL_TOKENIZER = ("tokenizer.json",)
SENTENCEPIECE = "tokenizer.model"  # what some causal models have in its place
CAUSAL_TOKENIZER_EXTRAS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
CONFIGURATION = (CONFIG, "generation_config.json")
_A_MODEL = (
    f"A translation model is a folder that `{ADD} SOURCE` made, or config.json, {ENCODER}, {MERGED} (or {DECODER}, "
    f"with or without {WITH_PAST}), source.spm, target.spm and vocab.json, as `{EXPORT}` writes them"
)
_A_CAUSAL_MODEL = (
    f"A causal language model is a folder that `{ADD} SOURCE` made, or config.json, {CAUSAL} and tokenizer.json, as "
    f"`{EXPORT_CAUSAL}` writes them"
)
_CHUNK = 1 << 20
_LFS_POINTER = b"version https://git-lfs"


class FileStamp(NamedTuple):
    """What tells a file from what it was, or from another file of its name."""

    device: int
    inode: int
    num_bytes: int
    modified_ns: int
    changed_ns: int  # of content, name or permissions


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

    def stamps(self) -> dict[str, FileStamp]:
        """What the file system says of the same files, by name. Reads no content: cheap enough to ask for each batch.

        Differs from an earlier answer if a file was written to, replaced, added or removed meanwhile: the inode changes
        with a replacement, the size or a time with a write, and the time of change cannot be set back.
        """
        found = {}
        for file in _deciding_files(self.path):
            with contextlib.suppress(OSError):  # it has just gone
                said = file.stat()
                found[file.relative_to(self.path).as_posix()] = FileStamp(
                    said.st_dev, said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns
                )
        return found


def default_model(task: Task) -> str:
    """The bundled model that does a task where none is named."""
    return DEFAULT_MODEL if task is Task.TRANSLATE else DEFAULT_CAUSAL


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


def kind_of(folder: ModelFolder) -> ModelKind:
    """What its manifest says, else what its graphs are called, else what config.json names; raises ModelError where a
    file that says it is damaged."""
    if manifest := read_manifest(folder):
        return ModelKind.of_architecture(manifest.architecture)
    path = folder.path
    if _has(path, ENCODER):
        return ModelKind.TRANSLATION
    if _has(path, _causal_graph(path)) or (path / GENAI_CONFIG).is_file():
        return ModelKind.CAUSAL
    return ModelKind.CAUSAL if names_causal(read_json_or_empty(path / "config.json")) else ModelKind.TRANSLATION


def layout_of(folder: ModelFolder) -> str | None:
    """kv, merged, two decoders, with past or no cache; None where its files make no layout.

    The names of the files say it. Of a causal export its graph does, and numpy and onnx are loaded to read it.
    """
    if (manifest := read_manifest(folder)) and manifest.layout == "kv":
        return "kv"
    if kind_of(folder) is ModelKind.CAUSAL:
        return _causal_layout(folder.path)
    graphs = _export_place(folder.path, ENCODER)
    if not (graphs / ENCODER).is_file():
        return None
    if (graphs / MERGED).is_file():
        return "merged"
    if not (graphs / DECODER).is_file():
        return None
    return "two decoders" if (graphs / WITH_PAST).is_file() else "no cache"


def check_files(folder: ModelFolder) -> None:
    """Raise ModelError that names the first file which a model of its kind needs and this folder lacks."""
    manifest, path, kind = read_manifest(folder), folder.path, kind_of(folder)
    if manifest is not None and manifest.layout == "kv":
        tokenizer = TOKENIZER if kind is ModelKind.TRANSLATION else CAUSAL_TOKENIZER
        for name in ("config.json", *KV_GRAPHS[kind], *tokenizer):
            _require(path / name, _remedy(path, manifest))
    elif kind is ModelKind.CAUSAL:
        _check_causal_export(path)
    else:
        _check_export(path)
    for file in _deciding_files(path):
        refuse_link_out(file, path)
        refuse_hollow(file)


def check_causal_tokenizer(path: Path) -> None:
    """Raise ModelError where a folder lacks what a causal model's tokenizer is read from, and say where to get it."""
    for name in CAUSAL_TOKENIZER:
        _require(path / name, lacks_tokenizer({file.name for file in _files(path)}))


def lacks_tokenizer(names: Collection[str]) -> str:
    """What is missing where a causal model has no tokenizer.json, from the names of the files beside it."""
    if SENTENCEPIECE in names:
        return f"{SENTENCEPIECE} alone cannot be read; make a tokenizer.json of it with `{CONVERT}`"
    return f"the tokenizer. {_A_CAUSAL_MODEL}"


def has_weights(path: Path) -> bool:
    """Whether a folder holds the weights of a checkpoint, in whichever of the known files."""
    return any((path / name).is_file() for name in CHECKPOINT)


def has_graphs(path: Path) -> bool:
    """Whether a folder holds graphs that somebody exported."""
    return any(_has(path, name) for name in (ENCODER, _causal_graph(path)))


def refuse_other_names(path: Path) -> None:
    """Raise ModelError for a folder whose graphs have names by which none is looked for, and that has nothing else."""
    if has_graphs(path) or has_weights(path):
        return
    graphs = sorted(
        file.relative_to(path).as_posix()
        for place in (path, path / "onnx")
        for file in _files(place)
        if file.suffix == ".onnx"
    )
    if graphs:
        raise ModelError(
            f"{path} has graphs by other names than are looked for ({', '.join(graphs)}): rename those that you want, "
            f"of a causal model to {CAUSAL}, of a translation model to {ENCODER} and {MERGED}"
        )


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
    graphs = _export_place(path, ENCODER)
    if not (graphs / ENCODER).is_file():
        _refuse_checkpoint(path)
    _require(path / "config.json", f"the model's configuration. {_A_MODEL}")
    _require(graphs / ENCODER, f"the encoder. {_A_MODEL}")
    named = _named(read_json_or_empty(path / "config.json"))
    if named is not None:
        what, where = named
        raise ModelError(
            f"{path} is an export of {what} ({where} in its config.json), which kvjobs cannot translate with "
            "yet: take a Marian (OPUS-MT) model"
        )
    if not (graphs / MERGED).is_file():
        _require(graphs / DECODER, f"the decoder (or {MERGED}, which does the work of both decoders). {_A_MODEL}")
    for name in TOKENIZER:
        _require(path / name, f"it belongs to the Marian tokenizer, which the export copies. {_A_MODEL}")


def _named(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """What a config.json says that a model is, and where; None where that is Marian, or nothing is said."""
    if config.get("model_type") is not None:
        return None if config["model_type"] == MARIAN else (str(config["model_type"]), "model_type")
    if config.get("architectures") and architecture_of(config) != MARIAN:
        said = config["architectures"]
        return (", ".join(map(str, said)) if isinstance(said, list) else str(said)), "architectures"
    return None


def _check_causal_export(path: Path) -> None:
    name = _causal_graph(path)
    if not _has(path, name):
        _refuse_checkpoint(path)
    if not (path / GENAI_CONFIG).is_file():
        _require(path / CONFIG, f"the model's configuration. {_A_CAUSAL_MODEL}")
    _require(_export_place(path, name) / name, f"the graph. {_A_CAUSAL_MODEL}")
    check_causal_tokenizer(path)


def _refuse_checkpoint(path: Path) -> None:
    refuse_files({file.name for file in _files(path)}, str(path))
    if has_weights(path):
        raise ModelError(
            f"{path} is a checkpoint, of which graphs have to be built first: run `{ADD} {path}`, and name the model "
            "that it makes"
        )


def _causal_layout(path: Path) -> str | None:
    """By the inputs of its graph; None where there is none that can be read."""
    from worker.models.layout.graph_header import read_head  # loads numpy and onnx

    name = _causal_graph(path)
    head = read_head(_export_place(path, name) / name)
    if head is None:
        return None
    return "with past" if any(one.name.startswith("past_") for one in head.inputs) else "no cache"


def _remedy(path: Path, manifest: Manifest) -> str:
    if path in BUNDLED.values():
        return "it comes with kvjobs: install that again"
    return f"`{ADD} {manifest.source}` wrote it: run that again with --force"


def _causal_graph(path: Path) -> str:
    """onnxruntime-genai writes down what it calls a graph; all others call it alike."""
    return genai_filename(path) or CAUSAL


def _has(path: Path, graph: str) -> bool:
    return any((place / graph).is_file() for place in (path, path / "onnx"))


def _export_place(path: Path, graph: str) -> Path:
    """Where Optimum's graphs are: in the folder, or in its folder `onnx`."""
    return path if (path / graph).is_file() or not (path / "onnx").is_dir() else path / "onnx"


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
    if name in BUNDLED:
        return (
            f"the bundled model {name} is not in this installation ({BUNDLED[name]} is missing): install kvjobs again"
        )
    if not is_plain(name):
        return (
            f"there is no folder {name!r}. To take a checkpoint from the Hugging Face hub or from a folder, run "
            f"`{ADD} SOURCE`, then name the model that it makes (known: {', '.join(known) or 'none'})"
        )
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f" (did you mean {close[0]}?)" if close else ""
    return (
        f"there is no model {name!r}{suggestion}; known: {', '.join(known) or 'none'} (folders of {models_dir}, and "
        f"bundled models); the path of a model folder works too, and `{ADD} SOURCE` makes a model"
    )
