"""
A checkpoint as it is published on the Hugging Face hub: config.json, tokenizer, weights.

Knows: which files hold the weights, and which tensors an architecture has. Does not know: where the folder came from.

    model.safetensors                               one file
    model.safetensors.index.json + its shards       several
    pytorch_model.bin                               a pickle
    pytorch_model.bin.index.json + its shards       several

or as one GGUF file, which has all of it.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import safetensors

from jobs.errors import ModelError
from worker.graphs.architectures import ARCHITECTURES, architecture_of, lacks_head
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import tensor_names as causal_names
from worker.graphs.cross_encoder.families import names_of
from worker.graphs.cross_encoder.families import read_network as read_cross_encoder
from worker.graphs.cross_encoder.families import tensor_names as cross_encoder_names
from worker.graphs.cross_encoder.network import EncoderNetwork
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.tensor_names import tensor_names as seq2seq_names
from worker.models.checkpoint.gguf_checkpoint import read_weights
from worker.models.checkpoint.gguf_config import read_config
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.pickle_reader import read_pickle
from worker.models.checkpoint.tensor_files import StoredTensor, StoredWeights, Weight
from worker.models.export_advice import EXPORT_CAUSAL
from worker.models.file_names import INDEX, PICKLE, PICKLE_INDEX, SAFETENSORS
from worker.models.json_file import read_json
from worker.models.model_kind import ModelKind
from worker.models.readable_file import refuse_placeholder
from worker.models.unsupported import is_gguf_file, refuse_custom_code, refuse_files, refuse_mixture, refuse_quantized

# Suffixes of buffers that older versions of transformers saved; they are computed from config.json instead.
_BUFFERS = (
    "rotary_emb.inv_freq",
    "rotary_emb.cos_cached",
    "rotary_emb.sin_cached",
    "masked_bias",
    "position_ids",
    ".attn.bias",  # the causal mask of GPT-2
    ".attention.bias",  # of GPT-NeoX
)
_NUM_SHOWN = 3  # tensors in an error message


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint from which graphs are built. A weight is read from the disk on each access."""

    folder: Path  # or the GGUF file
    architecture: str  # model_type of one of `ARCHITECTURES`
    config: Mapping[str, Any]
    weights: Mapping[str, Weight]  # by their names in transformers, as float32
    files: tuple[str, ...]  # the files that are read, config.json first

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read config.json and the headers of the weight files, or the header of the GGUF file that `folder` is.

        Raises ModelError for what no graph can be built of.
        """
        if is_gguf_file(folder):
            gguf = GgufFile.open(folder)
            config = read_config(gguf)
            return cls(folder, config["model_type"], config, read_weights(gguf, config), (folder.name,))
        refuse_files({file.name for file in folder.iterdir()}, str(folder))
        architecture, config = check_architecture(folder / "config.json", str(folder))
        if (folder / SAFETENSORS).is_file():
            files: tuple[str, ...] = (SAFETENSORS,)
            weights = StoredWeights(_read_safetensors(folder / SAFETENSORS))
        elif (folder / INDEX).is_file():
            shards = _read_index(folder / INDEX)
            files = (INDEX, *shards)
            weights = StoredWeights(tensor for shard in shards for tensor in _read_safetensors(folder / shard))
        elif (folder / PICKLE).is_file():
            files = (PICKLE,)
            weights = StoredWeights(_read_pickle(folder / PICKLE))
        elif (folder / PICKLE_INDEX).is_file():
            shards = _read_index(folder / PICKLE_INDEX)
            files = (PICKLE_INDEX, *shards)
            weights = StoredWeights(tensor for shard in shards for tensor in _read_pickle(folder / shard))
        else:
            raise ModelError(_no_weights(folder))
        _check_tensors(folder, architecture, config, weights.keys())
        return cls(folder, architecture, config, weights, ("config.json", *files))

    @property
    def kind(self) -> ModelKind:
        return ModelKind.of_architecture(self.architecture)


def check_architecture(file: Path, name: str) -> tuple[str, dict[str, Any]]:
    """Read a config.json; return which of the `ARCHITECTURES` it is of, and its content. `name`: the model, for errors.

    Raises ModelError that names the architecture, or the setting of it, that no graph is built for.
    """
    config = read_json(file)
    architecture = architecture_of(config)
    if architecture is not None:
        refuse_custom_code(config, name)
        refuse_quantized(config, name)
        try:
            sizes = _sizes(architecture, config)  # raises for settings that are not supported
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from error
        if lacks_head(config) and isinstance(sizes, CausalSizes) and not sizes.tied_head:
            raise ModelError(_no_head(name, sizes))
        return architecture, config
    refuse_mixture(config, name)
    named = config.get("architectures") or []
    what = ", ".join(map(str, named)) if isinstance(named, list) and named else config.get("model_type")
    raise ModelError(
        f"{name} has the architecture {what or '(config.json names none)'}; `kvjobs models add` builds graphs of "
        f"{', '.join(ARCHITECTURES)}; of another causal language model it takes an export ({EXPORT_CAUSAL})"
    )


def _sizes(architecture: str, config: Mapping[str, Any]) -> CausalSizes | Seq2SeqNetwork | EncoderNetwork:
    match ModelKind.of_architecture(architecture):
        case ModelKind.CAUSAL:
            return read_sizes(config)
        case ModelKind.CROSS_ENCODER:
            return read_cross_encoder(config)
        case _:
            return read_network(config)


def _known_names(sizes: CausalSizes | Seq2SeqNetwork | EncoderNetwork) -> Collection[str]:
    match sizes:
        case CausalSizes():
            return causal_names(sizes)
        case EncoderNetwork():
            return cross_encoder_names(sizes)
        case _:
            return seq2seq_names(sizes)


def _check_tensors(folder: Path, architecture: str, config: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise ModelError for tensors that the native graphs do not use: a part of the network would be missing."""
    sizes = _sizes(architecture, config)
    known = _known_names(sizes)
    unused = names_of(sizes).unused if isinstance(sizes, EncoderNetwork) else ()
    unread = sorted(
        name for name in names if name not in known and not name.endswith(_BUFFERS) and not name.startswith(unused)
    )
    if unread:
        some = ", ".join(unread[:_NUM_SHOWN]) + (f" and {len(unread) - _NUM_SHOWN} more" if unread[_NUM_SHOWN:] else "")
        raise ModelError(
            f"{folder} has tensors that are not part of a {architecture} network as config.json describes it ({some}), "
            "so its graph would compute something else: take the checkpoint that belongs to this config.json; if "
            "the tensors are not needed, save it again with transformers, which leaves them out"
        )
    if isinstance(sizes, CausalSizes) and not sizes.tied_head and f"{sizes.tensors.head}.weight" not in names:
        raise ModelError(_no_head(str(folder), sizes))


def _no_head(name: str, sizes: CausalSizes) -> str:
    return (
        f"{name} was saved without its head ({sizes.tensors.head}.weight), and config.json does not say that the "
        "embeddings are the head (tie_word_embeddings): it gives no probabilities; take the checkpoint of the whole "
        "model, ...ForCausalLM"
    )


def _read_index(file: Path) -> list[str]:
    """The shards that an index lists, sorted; raise ModelError where one is missing."""
    listed = read_json(file).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise ModelError(f"{file} has no weight_map: download it again")
    shards = sorted(set(map(str, listed.values())))
    for shard in shards:
        if shard != Path(shard).name:
            raise ModelError(f"{file} names the file {shard!r}, which is not beside it: download it again")
        if not (file.parent / shard).is_file():
            raise ModelError(f"{file.parent / shard} is missing, and {file.name} lists it: download it again")
    return shards


def _read_pickle(file: Path) -> Iterator[StoredTensor]:
    refuse_placeholder(file)
    return read_pickle(file)


def _read_safetensors(file: Path) -> Iterator[StoredTensor]:
    refuse_placeholder(file)
    try:
        # The library validates the header: lengths, overlaps, holes. Tensors are read by hand, because its numpy side
        # has no bf16 unless ml_dtypes happens to be loaded.
        with safetensors.safe_open(file, "np"):
            pass
        with file.open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            header = json.loads(content.read(length))
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    except (safetensors.SafetensorError, ValueError) as error:
        raise ModelError(
            f"{file} is damaged or incomplete ({str(error).rpartition(': ')[2]}): download it again"
        ) from error
    for name, tensor in header.items():
        if name != "__metadata__":
            start = 8 + length + tensor["data_offsets"][0]
            yield StoredTensor(file, name, tensor["dtype"], tuple(tensor["shape"]), start)


def _no_weights(folder: Path) -> str:
    others = sorted(file.name for file in folder.iterdir() if file.suffix in (".h5", ".ot", ".msgpack", ".npz", ".bin"))
    found = f" ({', '.join(others)} cannot be read)" if others else ""
    return f"{folder} has no weights{found}: {SAFETENSORS} or {PICKLE} is needed, or {INDEX} with its shards"
