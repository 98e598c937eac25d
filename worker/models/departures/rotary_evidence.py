"""
Whether a graph rotates positions by the frequencies that the configuration asks for.

A graph holds the frequencies of the rotated pairs of a head (Optimum), or tables of cosines and sines
(onnxruntime-genai). Both are compared with what `rope_theta` and `rope_scaling` give. A graph that shows neither is no
reason for a suspicion unless a scaling is configured: some models write their frequencies in another form.

longrope (Su; Phi-3-128k, Phi-3.5, Phi-4-mini) has two sets of factors: the short ones for texts of up to
`original_max_position_embeddings` tokens, the long ones for all positions of a longer text. A traced graph has the
short ones alone. A graph that chooses by the number of tokens so far gives the first part of a long text, which is read
in pieces, other factors than the rest. Either is right up to the original length.

Shapes: R rows of a table, positions · F frequencies, half of the rotated elements of a head.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.causal.rope import Rope
from worker.models.departures.evidence import Contradiction, Departure, Limit, Suspicion
from worker.models.departures.graph_content import ConstantTensor, GraphContent
from worker.models.departures.window_evidence import configured_windows
from worker.models.layout.causal_config import CausalConfig

_FREQUENCY_TOLERANCE = 2e-3  # relative: holds for frequencies in float16, too
_TABLE_TOLERANCE = 5e-3  # absolute, of cosines and sines: holds for tables in float16, too
_ROWS = 4096  # of a table that are compared: beyond, float32 loses the angle of the fastest pairs
_UNSCALED = ("default", "dynamic")  # dynamic scales beyond max_position_embeddings, where texts end here
_STEPS = 4  # nodes between frequencies and their cosine
_TABLE_OPS = ("GroupQueryAttention", "RotaryEmbedding")  # take tables of cosines and sines

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _ConfiguredRope:
    """The frequencies that a configuration asks for."""

    kind: str  # rope_type
    frequencies: Floats  # (F,); of longrope the frequencies with the short factors
    factor: float  # of cosines and sines
    plain: Floats  # (F,), without scaling
    short_factors: Floats | None = None  # (F,), of longrope: divisors of the plain frequencies
    original: int | None = None  # of longrope: tokens from which on the long factors hold; None: they never do


def rotary_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """How the rotary positions of a graph differ from the configuration."""
    rope = _configured_rope(config)
    if rope is None:
        yield from _switching_tables(content)
        return
    constants = _RopeConstants.of(content, len(rope.frequencies), min(rope.original or _ROWS, _ROWS))
    yield from _local(constants, content, config, rope)
    if rope.kind in _UNSCALED:
        is_used = not _all_local(config)
        if is_used and not constants.have(rope.plain, 1.0) and _shows_frequencies(content, len(rope.plain)):
            base = f"rope_theta = {_base(config):,g}"
            yield Contradiction(f"config.json asks for {base}, and the graph turns positions by other frequencies")
        yield from _switching_tables(content)
    elif _all_local(config):
        return
    elif rope.short_factors is not None:
        yield from _longrope(constants, rope)
    elif not constants.have(rope.frequencies, rope.factor):
        setting = f"config.json asks for rope_scaling of the kind {rope.kind}"
        if constants.have(rope.plain, 1.0):
            yield Contradiction(f"{setting}, and the graph turns positions without any scaling")
        elif _shows_frequencies(content, len(rope.plain)):
            yield Contradiction(f"{setting}, and the graph turns positions by other frequencies than that gives")
        else:
            yield Suspicion(f"{setting}, which is not seen in the graph")


def _local(
    constants: "_RopeConstants", content: GraphContent, config: CausalConfig, rope: _ConfiguredRope
) -> Iterator[Departure]:
    """A contradiction where no layer has the base frequency that Gemma-3 sets for its layers with a window."""
    base = config.content.get("rope_local_base_freq")
    if not isinstance(base, int | float) or base <= 0:
        return
    if not any(any(is_local) for _, _, is_local in configured_windows(config)):
        return
    count = len(rope.plain)
    if not constants.have(_plain(float(base), count), 1.0) and _shows_frequencies(content, count):
        setting = f"rope_local_base_freq = {base:,g}"
        yield Contradiction(f"config.json asks for {setting}, and no layer of the graph turns positions by it")


def _all_local(config: CausalConfig) -> bool:
    """Whether every layer has a window and the base of such layers, so that exporters drop the other frequencies:
    Gemma-3 without a layer of full attention."""
    if not isinstance(config.content.get("rope_local_base_freq"), int | float):
        return False
    return any(is_local and all(is_local) for _, _, is_local in configured_windows(config))


def _longrope(constants: "_RopeConstants", rope: _ConfiguredRope) -> Iterator[Departure]:
    has_short = constants.have(rope.frequencies, rope.factor)
    if not has_short and rope.short_factors is not None:  # frequencies that the graph computes
        has_short = constants.have_vector(rope.short_factors) and constants.have_number(rope.factor)
    if not has_short:
        missing = f"attention factor, {rope.factor:.4g}," if constants.have_vector(rope.frequencies) else "short_factor"
        yield Contradiction(
            f"config.json asks for rope_scaling of the kind longrope, and the {missing} of it is not in the graph"
        )
    elif rope.original is not None:
        yield Limit(
            rope.original,
            f"rope_scaling of the kind longrope has other factors for texts of more than {rope.original:,} tokens "
            "(original_max_position_embeddings), which this graph does not apply to all of a text",
        )


def _switching_tables(content: GraphContent) -> Iterator[Departure]:
    """A limit for genai's graphs without a config.json that switch to other tables from some length on."""
    for node in content.nodes_of("If"):
        condition = content.producer(node.inputs[0])
        consumers = (consumer for output in node.outputs for consumer in content.consumers(output))
        if (
            condition is None
            or condition.op != "Greater"
            or not any(consumer.op in _TABLE_OPS for consumer in consumers)
        ):
            continue
        length = content.scalar(condition.inputs[1])
        if length is not None and length >= 1:
            yield Limit(
                int(length),
                f"the graph has other rotary factors for texts of more than {int(length):,} tokens, which it does not "
                "apply to all of a text",
            )


def _shows_frequencies(content: GraphContent, count: int) -> bool:
    """Whether the graph shows its rotation: as tables that an operator takes, or as constants above a cosine."""
    tables = (content.constant(name) for node in content.nodes_of(*_TABLE_OPS) for name in node.inputs if name)
    if any(table is not None and table.dtype.kind == "f" and _is_table(table, count) for table in tables):
        return True
    names = [name for node in content.nodes_of("Cos") for name in node.inputs]
    for _ in range(_STEPS):
        if any((constant := content.constant(name)) is not None and constant.size == count for name in names):
            return True
        producers = (content.producer(name) for name in names)
        names = [name for node in producers if node and node.op in ("Concat", "MatMul", "Mul") for name in node.inputs]
    return False


@dataclass(frozen=True)
class _RopeConstants:
    """The constants of a graph that may be frequencies or tables of them."""

    vectors: Sequence[Floats]  # (F,)
    tables: Sequence[Floats]  # (R, F)
    numbers: frozenset[float]

    @classmethod
    def of(cls, content: GraphContent, count: int, num_rows: int) -> "_RopeConstants":
        """The constants for heads with `count` rotated pairs; of each table the first `num_rows` rows."""
        of_branches = (array for node in content.nodes for branch in node.branches for array in branch)
        used = (array for name, array in content.constants.items() if any(True for _ in content.consumers(name)))
        floats = [array for array in (*used, *filter(None, of_branches)) if array.dtype.kind == "f"]
        return cls(
            vectors=[
                _values(array).reshape(-1) for array in floats if array.size == count == max(array.shape, default=0)
            ],
            tables=[
                array.values()[:num_rows, :count].astype(np.float64) for array in floats if _is_table(array, count)
            ],
            numbers=frozenset(float(_values(array).reshape(-1)[0]) for array in floats if array.size == 1),
        )

    def have(self, frequencies: Floats, factor: float) -> bool:
        """Whether the graph rotates by these frequencies and this factor: given as two constants, or as tables that
        hold both."""
        if self.have_vector(frequencies):
            return factor == 1.0 or self.have_number(factor)
        return self._have_table(np.cos, frequencies, factor) and self._have_table(np.sin, frequencies, factor)

    def have_vector(self, values: Floats) -> bool:
        return any(np.allclose(vector, values, rtol=_FREQUENCY_TOLERANCE, atol=0) for vector in self.vectors)

    def have_number(self, value: float) -> bool:
        return any(math.isclose(number, value, rel_tol=_FREQUENCY_TOLERANCE) for number in self.numbers)

    def _have_table(self, function: Any, frequencies: Floats, factor: float) -> bool:
        def expected(num_rows: int) -> Floats:
            table: Floats = factor * function(np.outer(np.arange(num_rows), frequencies))
            return table

        return any(np.allclose(table, expected(len(table)), rtol=0, atol=_TABLE_TOLERANCE) for table in self.tables)


def _values(constant: ConstantTensor) -> Floats:
    return constant.values().astype(np.float64)


def _is_table(constant: ConstantTensor, count: int) -> bool:
    """Whether the constant may be a table: (R, F), or (R, 2 F) with two equal halves."""
    return len(constant.shape) == 2 and constant.shape[0] > 1 and constant.shape[1] in (count, 2 * count)


def _configured_rope(config: CausalConfig) -> _ConfiguredRope | None:
    """The rotation that the configuration asks for; None if it names no frequencies, or a scaling unknown here."""
    scaling = _scaling(config)
    if not isinstance(scaling, Mapping) or any(isinstance(value, Mapping) for value in scaling.values()):
        return None
    kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
    count = _num_pairs(config, scaling)
    if count is None:
        return None
    try:
        plain = _plain(_base(config), count)
        if kind in _UNSCALED:
            return _ConfiguredRope(kind, plain, 1.0, plain) if _names_base(config) else None
        if "short_factor" in scaling and "long_factor" in scaling:
            return _configured_longrope(config, scaling, plain)
        whole = {**config.content, "partial_rotary_factor": None}
        rope = Rope.read(whole, 2 * count, config.max_position_embeddings or 0)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, ModelError):
        return None
    return _ConfiguredRope(kind, np.asarray(rope.frequencies), rope.factor, plain)


def _scaling(config: CausalConfig) -> Any:
    return config.content.get("rope_parameters") or config.content.get("rope_scaling") or {}


def _names_base(config: CausalConfig) -> bool:
    return any(isinstance(settings.get("rope_theta"), int | float) for settings in (_scaling(config), config.content))


def _base(config: CausalConfig) -> float:
    return float(_scaling(config).get("rope_theta") or config.content.get("rope_theta") or 10_000.0)


def _plain(base: float, count: int) -> Floats:
    """Frequencies (F,) without scaling; raises ValueError for a base that is not positive."""
    if base <= 0:
        raise ValueError("a base is positive")
    plain: Floats = base ** (-np.arange(count, dtype=np.float64) / count)
    return plain


def _configured_longrope(config: CausalConfig, scaling: Mapping[str, Any], plain: Floats) -> _ConfiguredRope:
    """The rotation of longrope, as in `_compute_longrope_parameters` of transformers' modeling_rope_utils.py."""
    short, long = (np.asarray(scaling[name], np.float64) for name in ("short_factor", "long_factor"))
    if not len(short) == len(long) == len(plain):
        raise ValueError("there is a factor for each rotated pair")
    longest = config.max_position_embeddings or 0
    original = config.content.get("original_max_position_embeddings")
    if not original and (config.content.get("rope_parameters") or not scaling.get("factor")):
        # Within `rope_scaling`, transformers 4 ignores it where `factor` is given.
        original = scaling.get("original_max_position_embeddings")
    num_original = int(original or longest)
    stretch = longest / num_original if original else float(scaling.get("factor") or 1.0)
    factor = scaling.get("attention_factor")
    if factor is None:
        factor = 1.0 if stretch <= 1.0 else math.sqrt(1 + math.log(stretch) / math.log(num_original))
    changes = num_original < longest and not np.array_equal(short, long)
    return _ConfiguredRope("longrope", plain / short, float(factor), plain, short, num_original if changes else None)


def _num_pairs(config: CausalConfig, scaling: Mapping[str, Any]) -> int | None:
    """F, the rotated pairs of a head; None where the configuration does not give it."""
    size = config.content.get("qk_rope_head_dim") or config.head_dim
    if size is None and config.hidden_size and config.num_attention_heads:
        size = config.hidden_size // config.num_attention_heads
    part = (
        scaling.get("partial_rotary_factor")
        or config.content.get("partial_rotary_factor")
        or config.content.get("rotary_pct")
    )
    if not isinstance(size, int) or not isinstance(part or 1.0, int | float):
        return None
    return int(size * (part or 1.0)) // 2 or None
