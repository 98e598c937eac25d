"""
The description of a model folder that `kvjobs models inspect` shows.

Knows: files, manifests, the order in which sources are read. Does not know: a family's graphs, how to print.

Nothing here raises for a broken model: each fault becomes a problem in the description, beside everything that could be
read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.model_tools.inspect.causal import InspectedCausal
from worker.model_tools.inspect.cross_encoder import InspectedCrossEncoder
from worker.model_tools.inspect.description import ModelDescription, OpenedGraphs, collecting, file_sizes
from worker.model_tools.inspect.gguf import inspect_gguf
from worker.model_tools.inspect.protocol import InspectedFamily
from worker.model_tools.inspect.seq2seq import InspectedSeq2Seq
from worker.models.contents.present_files import has_weights, kind_of
from worker.models.contents.required_files import check_files
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind


def inspect_model(folder: ModelFolder) -> ModelDescription:
    """Open every graph of a folder, one after the other, then the model; describe the model and whether it runs."""
    if (known := _gguf_manifest(folder)) is not None:
        return inspect_gguf(folder, known)
    family, path = _family_of(folder), folder.path
    problems: list[str] = []
    manifest: Manifest | None = None
    with collecting(problems):
        manifest = read_manifest(folder)
        check_files(folder)
    consequences = [] if problems else problems  # of a missing file: they are not reported beside it
    native = manifest if manifest is not None and manifest.is_native else None
    used: Mapping[str, Path] = {}
    with collecting(consequences):
        used = family.find_graphs(path, native)
    opened = OpenedGraphs.of(path)
    if manifest is not None:
        consequences += manifest.differences(path)
    of_graphs = consequences if native else problems  # native graphs share one weights file
    of_graphs += opened.problems(used.values())

    fields: dict[str, Any] = _manifest_fields(manifest) | {"layout": "kv" if native else None}
    with collecting(consequences):
        fields |= family.read_config(path, manifest)
    sizes: Mapping[str, Any] = {}
    graphs = opened.readable(used)
    if used and len(graphs) == len(used):
        with collecting(of_graphs):
            sizes = family.read_graphs(path, graphs, is_native=native is not None)
            fields |= sizes
    with collecting(consequences):
        fields |= family.read_tokenizer(path, sizes)
    with collecting(problems):
        fields["revision"] = folder.revision()
    if sizes and not problems:
        with collecting(problems):
            fields |= family.open_model(path)
    if not used and not native and has_weights(path):
        problems[:] = problems[:1]  # "this is a checkpoint, add it with ...": the other problems follow from that
    return ModelDescription(
        name=folder.name,
        path=str(path),
        kind=family.kind,
        conclusion=family.conclusions[sizes["layout"]] if sizes and not problems else None,
        warnings=_warnings(fields.pop("warnings", ()), manifest),
        graphs=opened.describe(used.values()),
        files=file_sizes(path),
        problems=tuple(problems),
        **fields,
    )


def _gguf_manifest(folder: ModelFolder) -> Manifest | None:
    try:
        manifest = read_manifest(folder)
    except ModelError:  # a damaged manifest, which is reported as a problem
        return None
    return manifest if manifest is not None and manifest.is_gguf else None


def _family_of(folder: ModelFolder) -> InspectedFamily:
    try:
        kind = kind_of(folder)
    except ModelError:  # a damaged manifest, which is reported as a problem
        kind = ModelKind.TRANSLATION
    match kind:
        case ModelKind.CAUSAL:
            return InspectedCausal()
        case ModelKind.CROSS_ENCODER:
            return InspectedCrossEncoder()
        case _:
            return InspectedSeq2Seq()


def _manifest_fields(manifest: Manifest | None) -> dict[str, Any]:
    if manifest is None:
        return {}
    return {
        "precision": manifest.precision,
        "head": manifest.head,
        "drift": manifest.drift,
        "source": manifest.source,
        "source_revision": manifest.revision,
        "num_target_ids": len(manifest.head_ids) if manifest.head_ids is not None else None,
    }


def _warnings(of_graph: tuple[str, ...], manifest: Manifest | None) -> tuple[str, ...]:
    """The departures of an export from its configuration, with the departures that were found when it was added."""
    return tuple(dict.fromkeys((*of_graph, *(manifest.departures if manifest else ()))))
