"""
Tiny causal graphs with random weights in the layouts of other exporters, and the same network in numpy.

Two layers like Llama's: RMS norms, rotary positions, grouped queries (K < N), a gated product. Written without torch.

Shapes: B rows · S length · P past length · N heads · K key/value heads · H head size · D width · V vocabulary.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from worker.graphs.causal.rope import Rope
from worker.model_tools.verify.numpy_causal import NumpyCausal

LAYERS, WIDTH, HEADS, HEAD_SIZE, FFN, VOCAB, POSITIONS = 2, 32, 4, 16, 48, 61, 96
EPSILON = 1e-5
BASE = 100.0  # rope_theta
PAIRS = HEAD_SIZE // 2


@dataclass(frozen=True)
class LongRope:
    """Rotary positions like those of Phi-3.5: short and long factors, and scaled cosines and sines."""

    short: tuple[float, ...] = tuple(1.0 + 0.05 * pair for pair in range(PAIRS))
    long: tuple[float, ...] = tuple(1.0 + 3.0 * pair for pair in range(PAIRS))
    original: int = 24

    @property
    def factor(self) -> float:
        return float(np.sqrt(1 + np.log(POSITIONS / self.original) / np.log(self.original)))

    def config(self, kind: str = "longrope") -> dict[str, Any]:
        """Their entries in config.json."""
        scaling = {"type": kind, "short_factor": self.short, "long_factor": self.long}
        return {"rope_scaling": scaling, "rope_theta": BASE, "original_max_position_embeddings": self.original}

    def tables(self, *, is_long: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return tuple(self.factor * one for one in _tables(np.array(self.long if is_long else self.short)))  # type: ignore[return-value]


def _tables(slower: Any = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines and sines (POSITIONS, PAIRS) of frequencies divided by `slower`."""
    angles = np.outer(np.arange(POSITIONS), BASE ** -np.linspace(0, 1, PAIRS, endpoint=False) / slower)
    return np.cos(angles), np.sin(angles)


@dataclass(frozen=True)
class Export:
    """The choices of an exporter, which determine the graph that `write` makes."""

    attention: str = "plain"  # plain: products and a softmax (Optimum); grouped: GroupQueryAttention (genai)
    kv_heads: int = 2  # K
    has_past: bool = True
    positions: str = "input"  # input | past: counted from the past | left: as if padding were on the left
    dtype: type = np.float32
    scales_batches: bool = False  # hidden states are rounded with one scale for all rows, as in per-tensor int8
    num_logits: bool = False  # the input `num_logits_to_keep` of transformers.js
    names: tuple[str, str] = ("past_key_values.{layer}.{part}", "present.{layer}.{part}")
    leaves_head_size_open: bool = False
    rope: LongRope | None = None  # plain: only the short factors, as in a trace; grouped: chosen by the length

    def write(self, folder: Path, *, graph: str = "model.onnx", external: str | None = None, **config: Any) -> Path:
        """Write model.onnx and config.json; the same arguments give the same weights."""
        (folder / graph).parent.mkdir(parents=True, exist_ok=True)
        model = _Builder(self).model()
        if external:
            onnx.save(model, folder / graph, save_as_external_data=True, location=external, size_threshold=256)
        else:
            onnx.save(model, folder / graph)
        values = {
            "vocab_size": VOCAB,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": self.kv_heads,
            "head_dim": HEAD_SIZE,
            "hidden_size": WIDTH,
            "max_position_embeddings": POSITIONS,
            **(self.rope.config() if self.rope else {}),
        } | config
        (folder / "config.json").write_text(json.dumps(values))
        return folder

    def log_probs(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """log p(token | tokens before) of all tokens except the first, by the network in numpy."""
        return _Reference(self).log_probs([ids])[0]


def write_checkpoint(folder: Path, export: Export, *, changed: float = 0.0, **config: Any) -> Path:
    """Write the checkpoint of the Llama that an export computes; `changed` is added to some of its weights."""
    values = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rms_norm_eps": EPSILON, "rope_theta": BASE}
    export.write(folder, **values | {"intermediate_size": FFN, "tie_word_embeddings": False} | config)
    (folder / "model.onnx").unlink()
    tensors = _as_checkpoint(weights(export.kv_heads))
    tensors["lm_head.weight"][::2] += changed
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_letters(folder: Path) -> None:
    """Write a tokenizer with one token per letter, whose ids are in the vocabulary of the exports."""
    letters = {letter: number for number, letter in enumerate("~ abcdefghijklmnopqrstuvwxyzSMTWF0123456789.,-")}
    tokenizer = Tokenizer(models.WordLevel(vocab=letters, unk_token="~"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))


def weights(kv_heads: int, dtype: type = np.float32) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(11)

    def draw(*shape: int, spread: float = 1.6) -> NDArray[Any]:
        return (rng.standard_normal(shape) * spread / np.sqrt(shape[0])).astype(dtype)

    found = {"embed": draw(VOCAB, WIDTH, spread=VOCAB**0.5), "head": draw(WIDTH, VOCAB, spread=3.0)}
    for layer in range(LAYERS):
        found |= {
            f"{layer}.q": draw(WIDTH, HEADS * HEAD_SIZE),
            f"{layer}.k": draw(WIDTH, kv_heads * HEAD_SIZE),
            f"{layer}.v": draw(WIDTH, kv_heads * HEAD_SIZE),
            f"{layer}.o": draw(HEADS * HEAD_SIZE, WIDTH),
            f"{layer}.gate": draw(WIDTH, FFN),
            f"{layer}.up": draw(WIDTH, FFN),
            f"{layer}.down": draw(FFN, WIDTH),
        }
    for name in [f"{layer}.{norm}" for layer in range(LAYERS) for norm in ("norm", "ffn_norm")] + ["norm"]:
        found[name] = (1 + 0.2 * rng.standard_normal(WIDTH)).astype(dtype)
    cosines, sines = _tables()
    return found | {"cos": cosines.astype(dtype), "sin": sines.astype(dtype)}


def _as_checkpoint(drawn: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """The same weights by their names in transformers, with linear maps as (outputs, inputs)."""
    names = {"embed": "model.embed_tokens", "head": "lm_head", "norm": "model.norm"}
    for layer in range(LAYERS):
        here = f"model.layers.{layer}"
        names |= {f"{layer}.{one}": f"{here}.self_attn.{one}_proj" for one in "qkvo"}
        names |= {f"{layer}.{one}": f"{here}.mlp.{one}_proj" for one in ("gate", "up", "down")}
        names |= {f"{layer}.norm": f"{here}.input_layernorm", f"{layer}.ffn_norm": f"{here}.post_attention_layernorm"}
    return {
        f"{there}.weight": np.ascontiguousarray(drawn[here] if here == "embed" else drawn[here].T, np.float32)
        for here, there in names.items()
    }


class _Reference(NumpyCausal):
    """The network of an export in numpy, with its rotary positions."""

    def __init__(self, export: Export) -> None:
        config = {
            "model_type": "llama",
            "hidden_size": WIDTH,
            "intermediate_size": FFN,
            "max_position_embeddings": POSITIONS,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": export.kv_heads,
            "head_dim": HEAD_SIZE,
            "rms_norm_eps": EPSILON,
            "rope_theta": BASE,
            "vocab_size": VOCAB,
        }
        super().__init__(config, _as_checkpoint(weights(export.kv_heads, export.dtype)))
        self._rope = export.rope

    def rotations(self, rope: Rope, length: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self._rope is None:
            return super().rotations(rope, length)
        tables = self._rope.tables(is_long=length - 1 > self._rope.original)  # the last token is not an input
        cosines, sines = (table[:length].astype(np.float32) for table in tables)
        return cosines, sines


class _Builder:
    """Builds one graph, node by node."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._nodes: list[Any] = []
        self._initializers: dict[str, TensorProto] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._float = helper.np_dtype_to_tensor_dtype(np.dtype(export.dtype))
        drawn = weights(export.kv_heads, export.dtype)
        if export.rope:
            drawn["cos"], drawn["sin"] = (one.astype(export.dtype) for one in export.rope.tables(is_long=False))
        for name, array in drawn.items():
            self._initializers[name] = numpy_helper.from_array(array, name)

    def model(self) -> onnx.ModelProto:
        export = self._export
        ids = self._input("input_ids", TensorProto.INT64, ["batch", "length"])
        self._mask = self._input("attention_mask", TensorProto.INT64, ["batch", "total"])
        self._length = self._size(ids, 1)
        self._past_length = self._const([0])
        pasts = self._pasts() if export.has_past else []
        if pasts:
            self._past_length = self._size(pasts[0][0], 2)
        self._total = self._op("Add", self._past_length, self._length)
        prepare = self._prepare_grouped if export.attention == "grouped" else self._prepare_plain
        prepare()
        x = self._op("Gather", "embed", ids)
        for layer in range(LAYERS):
            h = self._norm(x, f"{layer}.norm")
            qkv = [self._op("MatMul", h, f"{layer}.{one}") for one in "qkv"]
            attend = self._grouped if export.attention == "grouped" else self._plain
            mixed, present = attend(qkv, pasts[layer] if pasts else ())
            for part, tensor in zip(("key", "value"), present, strict=False):
                shape = ["batch", export.kv_heads, "total", HEAD_SIZE]
                self._output(tensor, export.names[1].format(layer=layer, part=part), shape)
            x = self._op("Add", x, self._op("MatMul", mixed, f"{layer}.o"))
            h = self._norm(x, f"{layer}.ffn_norm")
            gate = self._op("MatMul", h, f"{layer}.gate")
            gate = self._op("Mul", gate, self._op("Sigmoid", gate))
            x = self._op("Add", x, self._op("MatMul", self._op("Mul", gate, self._op("MatMul", h, f"{layer}.up")),
                                            f"{layer}.down"))  # fmt: skip
        x = self._norm(x, "norm")
        if export.scales_batches:
            step = self._op("Div", self._op("ReduceMax", self._op("Abs", x), keepdims=0), self._float_const(7))
            x = self._op("Mul", self._op("Round", self._op("Div", x, step)), step)
        if export.num_logits:
            keep = self._op("Neg", self._input("num_logits_to_keep", TensorProto.INT64, []))
            ends = [self._op("Reshape", keep, self._const([1])), self._const([1 << 40]), self._const([1])]
            x = self._op("Slice", x, *ends[:2], ends[2])
        self._output(self._op("MatMul", x, "head"), "logits", ["batch", "length", VOCAB])
        graph = helper.make_graph(self._nodes, "tiny", self._inputs, self._outputs, list(self._initializers.values()))
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _pasts(self) -> list[tuple[str, str]]:
        size = "size" if self._export.leaves_head_size_open else HEAD_SIZE
        shape = ["batch", self._export.kv_heads, "past", size]

        def past(layer: int, part: str) -> str:
            return self._input(self._export.names[0].format(layer=layer, part=part), self._float, shape)

        return [(past(layer, "key"), past(layer, "value")) for layer in range(LAYERS)]

    def _prepare_plain(self) -> None:
        """Cosines and sines of positions (B or 1, 1, S, H / 2), and the bias of attention scores (B, 1, S, P + S)."""
        zero, one = self._const([0]), self._const([1])
        places = self._op("Unsqueeze", self._range(self._past_length, self._total), zero)  # (1, S)
        if self._export.positions == "input":
            positions = self._input("position_ids", TensorProto.INT64, ["batch", "length"])
        elif self._export.positions == "left":
            padding = self._op("Sub", self._total, self._op("ReduceSum", self._mask, one))  # (B, 1)
            positions = self._op("Max", self._op("Sub", places, padding), zero)
        else:
            positions = places
        self._angles = [self._op("Unsqueeze", self._op("Gather", name, positions), one) for name in ("cos", "sin")]
        keys = self._op("Unsqueeze", self._range(self._const([0]), self._total), zero)  # (1, P + S)
        queries = self._op("Unsqueeze", self._range(self._past_length, self._total), one)  # (S, 1)
        before = self._op("LessOrEqual", keys, queries)  # (S, P + S)
        real = self._op("Unsqueeze", self._op("Cast", self._mask, to=TensorProto.BOOL), self._const([1, 2]))
        self._bias = self._op("Where", self._op("And", before, real), self._float_const(0), self._float_const(-6e4))

    def _plain(self, qkv: list[str], past: Sequence[str]) -> tuple[str, list[str]]:
        counts = (HEADS, self._export.kv_heads, self._export.kv_heads)
        q, k, v = (
            self._op("Transpose", self._op("Reshape", one, self._const([0, 0, n, HEAD_SIZE])), perm=[0, 2, 1, 3])
            for one, n in zip(qkv, counts, strict=True)
        )
        present = [self._turn(k), v]
        if past:
            present = [self._op("Concat", old, new, axis=2) for old, new in zip(past, present, strict=True)]
        groups = HEADS // self._export.kv_heads
        k, v = (
            self._op("Reshape", self._op("Expand", self._op("Unsqueeze", one, self._const([2])),
                                         self._const([1, 1, groups, 1, 1])), self._const([0, HEADS, -1, HEAD_SIZE]))
            for one in present
        )  # fmt: skip
        scores = self._op("MatMul", self._turn(q), self._op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self._op("Mul", scores, self._float_const(HEAD_SIZE**-0.5))
        mixed = self._op("MatMul", self._op("Softmax", self._op("Add", scores, self._bias), axis=-1), v)
        mixed = self._op("Transpose", mixed, perm=[0, 2, 1, 3])
        return self._op("Reshape", mixed, self._const([0, 0, -1])), present if past else []

    def _turn(self, x: str) -> str:
        left, right = self._ops("Split", [x, self._const([HEAD_SIZE // 2] * 2)], 2, axis=-1)
        cos, sin = self._angles
        return self._op(
            "Concat",
            self._op("Sub", self._op("Mul", left, cos), self._op("Mul", right, sin)),
            self._op("Add", self._op("Mul", right, cos), self._op("Mul", left, sin)),
            axis=-1,
        )

    def _prepare_grouped(self) -> None:
        """Lengths computed from the mask, as genai's builder does."""
        last = self._op("Sub", self._op("ReduceSum", self._mask, self._const([1]), keepdims=0), self._const([1]))
        self._lasts = self._op("Cast", last, to=TensorProto.INT32)
        total = self._op("Squeeze", self._size(self._mask, 1))
        self._longest = self._op("Cast", total, to=TensorProto.INT32)
        self._tables = ["cos", "sin"]
        if self._export.rope:
            is_long = self._op("Greater", total, self._const(self._export.rope.original))
            branches = {"then_branch": self._branch(is_long=True), "else_branch": self._branch(is_long=False)}
            self._tables = self._ops("If", [is_long], 2, **branches)

    def _grouped(self, qkv: list[str], past: Sequence[str]) -> tuple[str, list[str]]:
        inputs = [*qkv, *(past or ("", "")), self._lasts, self._longest, *self._tables]
        mixed, *present = self._ops(
            "GroupQueryAttention", inputs, 3, domain="com.microsoft",
            num_heads=HEADS, kv_num_heads=self._export.kv_heads, do_rotary=1, scale=HEAD_SIZE**-0.5,
        )  # fmt: skip
        return mixed, present

    def _branch(self, *, is_long: bool) -> onnx.GraphProto:
        """The branch of an If with the tables for long or for other texts, as genai's builder writes it."""
        assert self._export.rope
        nodes, outputs = [], []
        for name, table in zip(("cos", "sin"), self._export.rope.tables(is_long=is_long), strict=True):
            tensor = numpy_helper.from_array(table.astype(self._export.dtype))
            nodes.append(helper.make_node("Constant", [], [f"{name}_{is_long}"], value=tensor))
            outputs.append(helper.make_tensor_value_info(f"{name}_{is_long}", self._float, table.shape))
        return helper.make_graph(nodes, f"tables_{is_long}", [], outputs)

    def _norm(self, x: str, weight: str) -> str:
        return self._op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=EPSILON)

    def _range(self, start: str, stop: str) -> str:
        return self._op("Range", self._op("Squeeze", start), self._op("Squeeze", stop), self._const(1))

    def _size(self, tensor: str, axis: int) -> str:
        return self._op("Shape", tensor, start=axis, end=axis + 1)

    def _const(self, value: Any) -> str:
        return self._keep(np.asarray(value, np.int64))

    def _float_const(self, value: float) -> str:
        return self._keep(np.asarray(value, self._export.dtype))

    def _keep(self, array: NDArray[Any]) -> str:
        name = f"constant.{array.dtype}.{array.tolist()}"
        self._initializers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def _input(self, name: str, kind: int, shape: Sequence[int | str]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def _output(self, tensor: str, name: str, shape: Sequence[int | str]) -> None:
        self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, self._float, list(shape)))

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self._ops(kind, inputs, 1, **attributes)[0]

    def _ops(self, kind: str, inputs: Sequence[str], count: int, domain: str = "", **attributes: Any) -> list[str]:
        outputs = [f"{kind}.{len(self._nodes)}.{place}" for place in range(count)]
        self._nodes.append(helper.make_node(kind, list(inputs), outputs, domain=domain, **attributes))
        return outputs
