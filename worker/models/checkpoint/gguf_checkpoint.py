"""
The weights in a GGUF file by their names in transformers.

Knows: what llama.cpp's converter changes of a checkpoint's tensors (conversion/*.py), undone here; their names are in
the package `gguf`. Does not know: settings, tokenizers, graphs.

A tensor that is not known is refused: it might change what the network computes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import FUSED_QKV
from worker.graphs.causal.weights import tensor_shapes
from worker.models.checkpoint.gguf_config import FAMILIES, GgufFamily, tensors_in_config
from worker.models.checkpoint.gguf_file import GgufFile, GgufTensor
from worker.models.checkpoint.gguf_settings import NoGraphsError, listed
from worker.models.checkpoint.tensor_files import Weight


def read_weights(file: GgufFile, config: dict[str, Any]) -> "GgufWeights":
    """The weights; raise ModelError where some are missing, or would not be read.

    `config`: of `read_config`.
    """
    try:
        sizes = read_sizes(config)
    except ModelError as error:
        raise ModelError(f"{file.path}: {str(error).replace('config.json', 'its metadata')}") from error
    architecture = file.metadata["general.architecture"]
    names = _names_in_file(architecture, sizes)
    found = {name: file.tensors[stored] for name, stored in names.items() if stored in file.tensors}
    unread = sorted(file.tensors.keys() - {*names.values(), *tensors_in_config(config)})
    if unread:
        raise NoGraphsError(
            f"{file.path} has tensors that are not part of a {sizes.family} network ({listed(unread)}), so its graph "
            "would compute something else: take the checkpoint that it was made from"
        )
    missing = names.keys() - found.keys() - ({f"{sizes.tensors.head}.weight"} if sizes.tied_head else set())
    if missing:
        raise ModelError(f"{file.path} lacks weights of its network ({listed(sorted(missing))}): download it again")
    for name, shape in tensor_shapes(sizes).items():
        if name in found and found[name].shape != shape:
            raise ModelError(
                f"{file.path} has the tensor {found[name].name} of the shape {found[name].shape}, and its metadata "
                f"give {shape}: it is damaged; download it again"
            )
    return GgufWeights(found, sizes, FAMILIES[architecture])


class GgufWeights(Mapping[str, Weight]):
    """Weights by name, as float32. Each access reads one tensor from the disk; none is cached."""

    def __init__(self, tensors: Mapping[str, GgufTensor], sizes: CausalSizes, family: GgufFamily) -> None:
        self._tensors = tensors
        self._sizes = sizes
        self._family = family

    def __getitem__(self, name: str) -> Weight:
        weight, sizes = self._tensors[name].read(), self._sizes
        if self._family.adds_one_to_norms and name.endswith("norm.weight"):
            return weight - np.float32(1)
        if self._family.has_permuted_heads and ".q_proj." in name:
            return _unpermuted(weight, sizes.heads)
        if self._family.has_permuted_heads and ".k_proj." in name:
            return _unpermuted(weight, sizes.kv_heads)
        if self._family.has_stacked_qkv and f".{sizes.tensors.parts[FUSED_QKV]}." in name:
            return _grouped(weight, sizes.heads, sizes.kv_heads)
        if self._family.is_transposed and name.startswith(f"{sizes.tensors.layer}."):
            return weight.T  # of one dimension: as it is
        return weight

    def __contains__(self, name: object) -> bool:  # Mapping's own reads the tensor
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _unpermuted(weight: Weight, heads: int) -> Weight:
    """Rows of each head from pairs of neighbours to halves, for weights and biases: the inverse of `permute` in
    llama.cpp's conversion/llama.py.

        a0 b0 a1 b1 a2 b2  ->  a0 a1 a2 b0 b1 b2
    """
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _grouped(weight: Weight, heads: int, kv_heads: int) -> Weight:
    """Rows of all queries, all keys, all values -> for each key/value head, rows of its queries, its key, its value."""
    size = len(weight) // (heads + 2 * kv_heads)
    queries, keys, values = np.split(weight, [heads * size, (heads + kv_heads) * size])
    groups = (part.reshape(kv_heads, -1, *weight.shape[1:]) for part in (queries, keys, values))
    return np.concatenate([*groups], axis=1).reshape(weight.shape)


def _names_in_file(architecture: str, sizes: CausalSizes) -> dict[str, str]:
    """The name in a file of this architecture of each tensor of a checkpoint."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    number = next(number for number, name in MODEL_ARCH_NAMES.items() if name == architecture)
    known = get_tensor_name_map(number, 1)  # of one layer: it makes a table of all tensors of all architectures
    layers = f"{sizes.tensors.layer}."
    names = {}
    for name in tensor_shapes(sizes):
        module, _, kind = name.rpartition(".")
        layer, _, part = module.removeprefix(layers).partition(".") if module.startswith(layers) else ("", "", "")
        first = f"{layers}0.{part}" if layer else module
        # BLOOM's names stand there without their beginning.
        stored = known.get_name(first) or known.get_name(first.removeprefix("transformer.")) or f"({module})"
        names[name] = f"{stored.replace('blk.0.', f'blk.{layer}.')}.{kind}"
    return names
