"""
The inputs of a causal model's products on a few paragraphs: by these, the channels of an int8 model are scaled
(`worker.graphs.causal.scaled_weights`) and its weights rounded (`worker.graphs.rounding`).

A layer at a time is built in fp32, run and removed, so that no more of the model is in memory: once for the sizes of
the channels, and once with scaled channels for the second moments.

Shapes: T tokens of a text · M of all texts · K size of a row that a product reads.
"""

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from jobs.system.process import available_cores
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import body_graph
from worker.graphs.causal.head import HEAD_PRODUCT
from worker.graphs.causal.scaled_weights import ScaledWeights, channel_scales
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import OUT
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

log = logging.getLogger(__name__)  # at level INFO, what `kvjobs models add` shows on a terminal

See = Callable[[str, Array], None]  # takes the name of a tensor, and its rows of one text (T, K)


def sample_rounding(folder: Path, config: Mapping[str, Any], weights: Weights) -> tuple[dict[str, Array], Factors]:
    """The scales of the channels that each product reads, and how its weights are rounded. The tokenizer is in
    `folder`, which also gets the graphs of a layer for as long as that runs."""
    texts = read_documents(str(TEXTS), CausalTokenizer.open(folder), limit=100)
    sizes = read_sizes(config)
    scales = read_scales(sizes, weights, texts, folder)
    return scales, InputMoments(sizes, ScaledWeights(weights, sizes, scales), texts, folder).factor


def read_scales(
    sizes: CausalSizes, weights: Weights, texts: Sequence[Sequence[int]], scratch: Path
) -> dict[str, Array]:
    """The scales d (K,) of the channels that each product reads. `scratch`: a folder for the graphs of a layer."""
    named = CausalWeights(weights, sizes)
    run, scales = _LayerRun(sizes, named, texts, scratch), dict[str, Array]()
    for layer in range(sizes.layers):
        log.info("reading a sample in fp32: layer %d of %d", layer + 1, sizes.layers)
        products, squares = _read_squares(run)
        inputs, loads = dict(products.inputs), dict(products.weights)
        if run.is_done:
            inputs[HEAD_PRODUCT], loads[HEAD_PRODUCT] = _HIDDEN, named.head
        columns: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(1))  # by tensor: products share one
        for product, name in inputs.items():
            weight = loads[product]()
            columns[name] = columns[name] + np.einsum("nk,nk->k", weight, weight, dtype=np.float64)
        for product, name in inputs.items():
            if name not in squares:
                continue  # no text has an id that the model knows
            heads = (sizes.heads, sizes.kv_heads) if product.endswith(f".{OUT}") else (1, 1)
            scales[product] = channel_scales(squares[name], columns[name], heads)
    return scales


def _read_squares(run: "_LayerRun") -> tuple[ReadProducts, dict[str, NDArray[np.float64]]]:
    """Run the next layer; its products, and by tensor that they read the sums of squares of its channels (K,)."""
    squares: dict[str, NDArray[np.float64]] = {}

    def see(name: str, x: Array) -> None:
        # The error of a row is proportional to its norm, so each row counts as much as another.
        norms = np.maximum((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True), 1e-30)
        squares[name] = squares.get(name, 0) + (x**2 / norms).sum(axis=0)

    return run.next_layer(see), squares


class InputMoments:
    """The moments of one model's products on texts of ids. Ask for the products in the order of their layers."""

    def __init__(
        self, sizes: CausalSizes, weights: CausalWeights, texts: Sequence[Sequence[int]], scratch: Path
    ) -> None:
        """`scratch`: a folder for the graphs of a layer."""
        self._run = _LayerRun(sizes, weights, texts, scratch)
        self._num_layers = sizes.layers
        self._inputs: dict[str, str] = {}  # product -> name of its input, for the layer that has run
        self._factors: dict[str, Array | None] = {}  # by name of the input

    def factor(self, product: str) -> Array | None:
        """By what the weights of this product are rounded (`worker.graphs.matrix_products.Factors`)."""
        while product not in self._inputs:
            self._read_next_layer()
        return self._factors.get(self._inputs[product])

    def _read_next_layer(self) -> None:
        moments: dict[str, NDArray[np.float32]] = {}
        log.info("rounding weights to int8: layer %d of %d", self._run.layer + 1, self._num_layers)

        def see(name: str, x: Array) -> None:
            if x.shape[1] <= _WIDEST:
                mixed = mix(x) if can_be_mixed(x.shape[1]) else x
                moments[name] = moments.get(name, 0) + mixed.T @ mixed

        self._inputs = dict(self._run.next_layer(see).inputs)
        if self._run.is_done:
            self._inputs[HEAD_PRODUCT] = _HIDDEN
        self._factors = {name: inverse_factor(sums) for name, sums in moments.items()}


class _LayerRun:
    """The texts on their way through the layers."""

    def __init__(
        self, sizes: CausalSizes, weights: CausalWeights, texts: Sequence[Sequence[int]], scratch: Path
    ) -> None:
        self._sizes = sizes
        self._weights = weights
        self._scratch = scratch
        # Without ids that the model does not have: a tokenizer of another model is refused when the model is tried.
        known = ([token_id for token_id in text if token_id < sizes.vocab_size] for text in texts)
        self._residuals: list[NDArray[Any]] = [  # ids before the first layer
            np.asarray(text[: sizes.max_positions], np.int64) for text in known if text
        ]
        self.layer = 0  # the layer that runs next

    @property
    def is_done(self) -> bool:
        return self.layer == self._sizes.layers

    def next_layer(self, see: See) -> ReadProducts:
        """Run a layer on all texts, and pass the inputs of its products to `see`; at the last layer the head's too."""
        products = ReadProducts()
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            with WeightsFile(Path(folder) / WEIGHTS) as file:
                layers = range(self.layer, self.layer + 1)
                net = body_graph(self._sizes, file, self._weights, Precision.FP32, layers, products)
                read = products.show(net)
            graph = Path(folder) / BODY
            graph.write_bytes(net.model().SerializeToString())
            self._run(open_native_session(graph, Precision.FP32, threads=available_cores()), read, see)
        self.layer += 1
        return products

    def _run(self, session: InferenceSession, read: list[str], see: See) -> None:
        result = session.get_outputs()[-1 - len(read)].name
        past = [node.name for node in session.get_inputs() if node.name.startswith("past.")]
        given = "ids" if self.layer == 0 else "residual"
        for number, text in enumerate(self._residuals):
            no_past = np.zeros((1, self._sizes.kv_heads, 0, self._sizes.head_size), np.float32)
            feeds = {given: text} | one_row(len(text)) | dict.fromkeys(past, no_past)
            self._residuals[number], *rows = session.run([result, *read], feeds)
            for name, x in zip(read, rows, strict=True):
                see(name, x)
            if result == _HIDDEN:
                see(_HIDDEN, self._residuals[number])


def one_row(length: int) -> dict[str, NDArray[Any]]:
    """The inputs of a body for one text without a past (`worker.graphs.causal.graphs`)."""
    tokens = np.arange(length)
    return {
        "rows": tokens[None],
        "places": tokens,
        "positions": tokens[None],
        "ends": np.array([length - 1], np.int32),
        "longest": np.array([length], np.int32),
        "is_shared": np.array(False),
        "bias": np.zeros((1, 1, 0, 0), np.float32),
    }
