"""
The second moments of what the products of a causal model read on a few paragraphs: by them, `worker.graphs.rounding`
rounds weights to int8.

A layer at a time is built in fp32, run and removed, so that no more of the model is in memory.

Shapes: T tokens of a text · M of all texts · K size of a row that a product reads.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from jobs.system.process import available_cores
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import body_graph
from worker.graphs.causal.weights import CausalWeights
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.file_names import BODY, WEIGHTS
from worker.graphs.matrix_products import Factors, ReadProducts
from worker.graphs.precision import Precision
from worker.graphs.rounding import Array, inverse_factor
from worker.graphs.weights import WeightsFile
from worker.kernels.mixing import can_be_mixed, mix
from worker.model_tools.sample import read_documents
from worker.text.causal_tokenizer import CausalTokenizer

# Paragraphs in several languages, and code, which were written for this. The drift is measured on others.
TEXTS = Path(__file__).with_name("rounding_text.jsonl")

# Wider rows are rounded to the nearest step: their moments take 2 GB, and to invert these a minute.
_WIDEST = 16_384
_HIDDEN = "hidden"  # the output of the last layer, which the head reads


def sample_factors(folder: Path, config: Mapping[str, Any], weights: Weights) -> Factors:
    """How the weights of a checkpoint are rounded. Its tokenizer is in `folder`, which also gets the graphs of a layer
    for as long as that runs."""
    texts = read_documents(str(TEXTS), CausalTokenizer.open(folder), limit=100)
    return InputMoments(config, weights, texts, folder).factor


class InputMoments:
    """Of one model, on texts of ids. Products have to be asked for in the order of their layers."""

    def __init__(
        self, config: Mapping[str, Any], weights: Weights, texts: Sequence[Sequence[int]], scratch: Path
    ) -> None:
        """`scratch`: a folder for the graphs of a layer."""
        self._sizes = read_sizes(config)
        self._weights = CausalWeights(weights, self._sizes)
        self._scratch = scratch
        # Without ids that the model does not have: a tokenizer of another model is refused when the model is tried.
        known = ([one for one in text if one < self._sizes.vocab_size] for text in texts)
        self._ids = [np.asarray(text[: self._sizes.max_positions], np.int64) for text in known if text]
        self._residuals: list[Array] = []
        self._layer = -1  # that has run
        self._inputs: dict[str, str] = {}  # of its products
        self._factors: dict[str, Array | None] = {}  # by their inputs

    def factor(self, product: str) -> Array | None:
        """See `worker.graphs.matrix_products.Factors`."""
        while product not in self._inputs:
            self._run_layer(self._layer + 1)
        return self._factors.get(self._inputs[product])

    def _run_layer(self, layer: int) -> None:
        products = ReadProducts()
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            with WeightsFile(Path(folder) / WEIGHTS) as file:
                layers = range(layer, layer + 1)
                net = body_graph(self._sizes, file, self._weights, Precision.FP32, layers, products)
                read = products.show(net)
            graph = Path(folder) / BODY
            graph.write_bytes(net.model().SerializeToString())
            self._run(open_native_session(graph, Precision.FP32, threads=available_cores()), read)
        self._layer, self._inputs = layer, products.inputs
        if layer == self._sizes.layers - 1:
            self._inputs = {**products.inputs, "head": _HIDDEN}

    def _run(self, session: InferenceSession, read: list[str]) -> None:
        """Run a layer on all texts, and sum the moments of what its products read."""
        result = session.get_outputs()[-1 - len(read)].name
        past = [one for one in session.get_inputs() if one.name.startswith("past.")]
        given = "ids" if not self._residuals else "residual"
        moments: dict[str, NDArray[np.float32]] = {}
        residuals = []
        for text in self._residuals or self._ids:
            no_past = np.zeros((1, self._sizes.kv_heads, 0, self._sizes.head_size), np.float32)
            feeds = {given: text} | one_row(len(text)) | {one.name: no_past for one in past}
            residual, *rows = session.run([result, *read], feeds)
            residuals.append(residual)
            found = dict(zip(read, rows, strict=True))
            if result == _HIDDEN:
                found[result] = residual
            for name, x in found.items():
                if x.shape[1] <= _WIDEST:
                    mixed = mix(x) if can_be_mixed(x.shape[1]) else x
                    moments[name] = moments.get(name, 0) + mixed.T @ mixed
        self._residuals = residuals
        self._factors = {name: inverse_factor(sums) for name, sums in moments.items()}


def one_row(length: int) -> dict[str, NDArray[Any]]:
    """The inputs of a body for one text without a past (`worker.graphs.causal.graphs`)."""
    places = np.arange(length)
    return {
        "rows": places[None],
        "places": places,
        "positions": places[None],
        "ends": np.array([length - 1], np.int32),
        "longest": np.array([length], np.int32),
        "is_shared": np.array(False),
        "bias": np.zeros((1, 1, 0, 0), np.float32),
    }
