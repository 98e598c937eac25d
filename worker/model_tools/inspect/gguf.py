"""The description of a GGUF file that is kept as it is, from its header, and whether llama.cpp loads it."""

from typing import Any

from jobs.errors import ModelError
from jobs.system.requirements import install_command, is_installed
from worker.engine.causal.llamacpp.library import LIBRARY, PACKAGE
from worker.engine.causal.llamacpp.trial import try_gguf
from worker.model_tools.inspect.description import ModelDescription, collecting, file_sizes
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.contents.required_files import check_files
from worker.models.file_names import GGUF_MODEL
from worker.models.manifest import GGUF, Manifest
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.text.gguf_tokenizer import template_in

_CONCLUSION = (
    "a GGUF file as it is, which llama.cpp runs (--providers llamacpp); short texts are packed into one call without "
    "padding, and a beginning that texts share is computed once"
)


def inspect_gguf(folder: ModelFolder, manifest: Manifest) -> ModelDescription:
    """Describe a model of the layout gguf; a part that cannot be read is left out, and named as a problem."""
    problems: list[str] = []
    fields: dict[str, Any] = {}
    with collecting(problems):
        check_files(folder)
        file = GgufFile.open(folder.path / GGUF_MODEL)
        fields = _header_fields(GgufNetwork.of(file))
        fields["has_chat_template"] = template_in(file.metadata, file.path) is not None
    problems += manifest.differences(folder.path) if not problems else ()
    with collecting(problems):
        fields["revision"] = folder.revision()
    warnings: tuple[str, ...] = ()
    if not is_installed(LIBRARY):
        warnings = (f"runs with llama.cpp, whose package is not installed here: {install_command(PACKAGE)}",)
    elif not problems:
        try:
            try_gguf(folder.path)
        except ModelError as error:
            problems.append(str(error))
    return ModelDescription(
        name=folder.name,
        path=str(folder.path),
        kind=ModelKind.CAUSAL,
        layout=GGUF,
        conclusion=None if problems else _CONCLUSION,
        precision=manifest.precision,
        source=manifest.source,
        source_revision=manifest.revision,
        warnings=warnings,
        graphs=(),
        files=file_sizes(folder.path),
        problems=tuple(problems),
        **fields,
    )


def _header_fields(network: GgufNetwork) -> dict[str, Any]:
    return {
        "architecture": network.architecture,
        "stored_types": network.types,
        "num_layers": network.num_layers if network.cache_bytes else None,
        "num_heads": network.num_heads,
        "num_query_heads": network.num_query_heads,
        "head_size": network.head_size,
        "cache_dtype": "float32",
        "cache_bytes": network.cache_bytes,
        "width": network.width,
        "max_positions": network.max_positions,
        "vocab_size": network.vocab_size,
        "bos_id": network.bos_id if network.adds_bos else None,
        "eos_id": network.eos_id,
        "adds_bos": network.adds_bos,
    }
