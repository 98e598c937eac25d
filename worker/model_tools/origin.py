"""
The origin of a model: the files that it is made from, how they are copied, and whether they still exist.

Knows: folders, checksums, the hub's cache. Does not know: which files a kind of model needs.
"""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jobs import __version__
from jobs.system.requirements import installed_version
from worker.models.contents.present_files import has_weights
from worker.models.external_data import external_files
from worker.models.manifest import FileRecord, Manifest, records, sha256_of
from worker.models.readable_file import refuse_link_out

_PACKAGES = ("numpy", "onnx", "onnxruntime")  # whose versions may change the files that are written


@dataclass(frozen=True, slots=True)
class Origin:
    """The folder to read from, and its source for the manifest."""

    folder: Path
    source: str  # repository id on the Hugging Face hub, or absolute path of the folder or GGUF file
    revision: str | None = None  # commit on the hub
    note: str | None = None  # a remark for the user on how it was fetched
    gguf: Path | None = None  # the file in `folder` that holds the model

    def copy(self, names: Iterable[str], folder: Path) -> None:
        """Copy files, by relative path; raise ModelError for a link that leads out of the folder."""
        for name in names:
            refuse_link_out(self.folder / name, self.folder)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / name, folder / name)

    def present(self, names: Iterable[str]) -> list[str]:
        """The names, out of `names`, of files that exist."""
        return [name for name in names if (self.folder / name).is_file()]

    def sums(self, names: Iterable[str]) -> dict[str, str]:
        """sha256 of some files."""
        return {name: sha256_of(self.folder / name) for name in sorted(names)}

    def manifest(
        self,
        folder: Path,
        *,
        layout: str,
        architecture: str,
        read: Iterable[str],
        precision: str | None = None,
        head: str | None = None,
        head_ids: Iterable[int] | None = None,
    ) -> Manifest:
        """The manifest of the model in `folder`, which was made from the files `read` of this origin."""
        return Manifest(
            layout=layout,
            architecture=architecture,
            precision=precision,
            head=head,
            head_ids=None if head_ids is None else tuple(head_ids),
            source=self.source,
            revision=self.revision,
            source_files=self.sums(set(read)),
            files=_records(folder),
            versions={"kvjobs": __version__}
            | {package: found for package in _PACKAGES if (found := installed_version(package))},
        )

    def with_weights_of(self, graphs: Iterable[Path]) -> list[str]:
        """Relative paths of exported graphs, which lie in one folder, and of the files that hold their weights: those
        that they name, and those that may be theirs: x.onnx_data (Optimum), x.onnx.data (torch), x.data."""
        graphs = list(graphs)
        names = {graph.name for graph in graphs}
        beside = {file for file in graphs[0].parent.iterdir() if file.is_file() and _is_external(file.name, names)}
        beside.update(*map(external_files, graphs))
        return [file.relative_to(self.folder).as_posix() for file in (*graphs, *sorted(beside))]


def find_checkpoint(manifest: Manifest) -> tuple[Path | None, str]:
    """The checkpoint (a folder, or a GGUF file) that a model was made from, if it still exists unchanged; else None and
    the reason."""
    found: Path | None = None
    if os.path.isfile(manifest.source):
        found = Path(manifest.source)
        folder = found.parent
    elif os.path.isdir(manifest.source):
        folder = Path(manifest.source)
        if not has_weights(folder):
            return None, f"{folder} no longer holds a checkpoint"
    else:
        cached = _in_cache(manifest)
        if cached is None:
            return None, f"the checkpoint that the model was made from ({manifest.source}) is not on this machine"
        folder = cached
    for name, sha256 in manifest.source_files.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != sha256:
            return None, f"{folder / name} has changed since the model was made: add it again"
    return found or folder, ""


def _in_cache(manifest: Manifest) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(manifest.source, "config.json", revision=manifest.revision)
    except ValueError:  # not an id of the hub: a folder that no longer exists
        return None
    return Path(found).parent if isinstance(found, str) else None


def _is_external(name: str, graphs: Iterable[str]) -> bool:
    own = any(name.startswith(graph) and name != graph for graph in graphs)
    return own or (name.endswith(".data") and ".onnx" not in name)


def _records(folder: Path) -> dict[str, FileRecord]:
    return records(folder, (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()))
