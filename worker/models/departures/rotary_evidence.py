"""
Whether a graph turns its rotary positions as the configuration asks for.

A graph holds the frequencies of the pairs of a head (Optimum), or tables of cosines and sines (onnxruntime-genai). Both
are compared with what the configuration makes of `rope_theta` and `rope_scaling`. Where frequencies are not found that
are not scaled, nothing is suspected: there are models that write them in another way.

longrope (Su; Phi-3-128k, Phi-3.5, Phi-4-mini) has two sets of factors, the short ones for texts of up to
`original_max_position_embeddings` tokens and the long ones for all positions of a longer text. A graph that was traced
knows the short ones alone; one that chooses by the number of tokens so far gives the first part of a long text, which
is read in pieces, other factors than the rest. Either is right up to the original length.

Shapes: R rows of a table, positions · F frequencies, half of the numbers of a head that turn.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.rope import Rope
from worker.models.departures.evidence import Contradiction, Departure, Limit, Suspicion
from worker.models.departures.graph_content import Constant, GraphContent
from worker.models.departures.window_evidence import asked_windows
from worker.models.layout.causal_config import CausalConfig

_FREQUENCY_TOLERANCE = 2e-3  # relative: of frequencies in float16 too
_TABLE_TOLERANCE = 5e-3  # of cosines and sines, likewise
_ROWS = 4096  # of a table: beyond, float32 loses the angle of the fastest pairs
_UNSCALED = ("default", "dynamic")  # dynamic scales beyond max_position_embeddings, and we end there
_STEPS = 4  # from a cosine back to its frequencies
_TABLES = ("GroupQueryAttention", "RotaryEmbedding")  # these take tables of cosines and sines

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the configuration makes of its numbers."""

    kind: str
    frequencies: Floats  # (F,); of longrope the short ones
    factor: float  # of cosines and sines
    plain: Floats  # (F,), without any scaling
    short: Floats | None = None  # (F,): what the plain frequencies are divided by
    original: int | None = None  # of longrope: where the long factors begin; None: nowhere


def rotary_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """What differs between a graph and the `rope_scaling` of its configuration."""
    asked = _asked(config)
    if asked is None:
        yield from _chosen_tables(content)
        return
    seen = _Seen.of(content, len(asked.frequencies), min(asked.original or _ROWS, _ROWS))
    yield from _local(seen, content, config, asked)
    if asked.kind in _UNSCALED:
        is_used = not _all_local(config)
        if is_used and not seen.has(asked.plain, 1.0) and _shows_frequencies(content, len(asked.plain)):
            base = f"rope_theta = {_base(config):,g}"
            yield Contradiction(f"config.json asks for {base}, and the graph turns positions by other frequencies")
        yield from _chosen_tables(content)
    elif _all_local(config):
        return
    elif asked.short is not None:
        yield from _longrope(seen, asked)
    elif not seen.has(asked.frequencies, asked.factor):
        what = f"config.json asks for rope_scaling of the kind {asked.kind}"
        if seen.has(asked.plain, 1.0):
            yield Contradiction(f"{what}, and the graph turns positions without any scaling")
        elif _shows_frequencies(content, len(asked.plain)):
            yield Contradiction(f"{what}, and the graph turns positions by other frequencies than that gives")
        else:
            yield Suspicion(f"{what}, which is not seen in the graph")


def _local(seen: "_Seen", content: GraphContent, config: CausalConfig, asked: _Asked) -> Iterator[Departure]:
    """Gemma-3's layers with a window turn positions by frequencies of their own."""
    base = config.said.get("rope_local_base_freq")
    if (
        not isinstance(base, int | float)
        or base <= 0
        or not any(any(is_local) for _, _, is_local in asked_windows(config))
    ):
        return
    if not seen.has(_plain(float(base), len(asked.plain)), 1.0) and _shows_frequencies(content, len(asked.plain)):
        what = f"rope_local_base_freq = {base:,g}"
        yield Contradiction(f"config.json asks for {what}, and no layer of the graph turns positions by it")


def _all_local(config: CausalConfig) -> bool:
    """Whether each layer turns positions by frequencies of its own, so that exporters drop the others: Gemma-3 without
    a layer that sees all."""
    if not isinstance(config.said.get("rope_local_base_freq"), int | float):
        return False
    return any(is_local and all(is_local) for _, _, is_local in asked_windows(config))


def _longrope(seen: "_Seen", asked: _Asked) -> Iterator[Departure]:
    short = seen.has(asked.frequencies, asked.factor)
    if not short and asked.short is not None:  # frequencies that the graph works out itself
        short = seen.has_vector(asked.short) and seen.has_number(asked.factor)
    if not short:
        what = f"attention factor, {asked.factor:.4g}," if seen.has_vector(asked.frequencies) else "short_factor"
        yield Contradiction(
            f"config.json asks for rope_scaling of the kind longrope, and the {what} of it is not in the graph"
        )
    elif asked.original is not None:
        yield Limit(
            asked.original,
            f"rope_scaling of the kind longrope has other factors for texts of more than {asked.original:,} tokens "
            "(original_max_position_embeddings), which this graph does not apply to all of a text",
        )


def _chosen_tables(content: GraphContent) -> Iterator[Departure]:
    """Of genai's graphs without a config.json: two sets of tables, and a length at which one takes over."""
    for node in content.of("If"):
        asks = content.maker(node.inputs[0])
        takers = (user for output in node.outputs for user in content.users(output))
        if asks is None or asks.op != "Greater" or not any(taker.op in _TABLES for taker in takers):
            continue
        length = content.number(asks.inputs[1])
        if length is not None and length >= 1:
            yield Limit(
                int(length),
                f"the graph has other rotary factors for texts of more than {int(length):,} tokens, which it does not "
                "apply to all of a text",
            )


def _shows_frequencies(content: GraphContent, count: int) -> bool:
    """Whether what turns positions is there to be read: tables that an operation takes, or what a cosine is made of."""
    tables = (content.constant(name) for node in content.of(*_TABLES) for name in node.inputs if name)
    if any(one is not None and one.dtype.kind == "f" and _is_table(one, count) for one in tables):
        return True
    names = [name for node in content.of("Cos") for name in node.inputs]
    for _ in range(_STEPS):
        if any((one := content.constant(name)) is not None and one.size == count for name in names):
            return True
        makers = (content.maker(name) for name in names)
        names = [name for node in makers if node and node.op in ("Concat", "MatMul", "Mul") for name in node.inputs]
    return False


@dataclass(frozen=True)
class _Seen:
    """What a graph holds that may be frequencies or tables of them."""

    vectors: Sequence[Floats]  # (F,)
    tables: Sequence[Floats]  # (R, F)
    numbers: frozenset[float]

    @classmethod
    def of(cls, content: GraphContent, count: int, num_rows: int) -> "_Seen":
        """Of a head of which `count` pairs turn; of tables the first rows."""
        of_branches = (one for node in content.nodes for branch in node.branches for one in branch)
        used = (one for name, one in content.constants.items() if any(True for _ in content.users(name)))
        every = [*used, *filter(None, of_branches)]
        floats = [one for one in every if one.dtype.kind == "f"]
        return cls(
            vectors=[_values(one).reshape(-1) for one in floats if one.size == count == max(one.shape, default=0)],
            tables=[one.values()[:num_rows, :count].astype(np.float64) for one in floats if _is_table(one, count)],
            numbers=frozenset(float(_values(one).reshape(-1)[0]) for one in floats if one.size == 1),
        )

    def has(self, frequencies: Floats, factor: float) -> bool:
        """Whether positions turn so: frequencies and a factor beside them, or tables that hold both."""
        if self.has_vector(frequencies):
            return factor == 1.0 or self.has_number(factor)
        return self._has_table(np.cos, frequencies, factor) and self._has_table(np.sin, frequencies, factor)

    def has_vector(self, values: Floats) -> bool:
        return any(np.allclose(one, values, rtol=_FREQUENCY_TOLERANCE, atol=0) for one in self.vectors)

    def has_number(self, value: float) -> bool:
        return any(math.isclose(one, value, rel_tol=_FREQUENCY_TOLERANCE) for one in self.numbers)

    def _has_table(self, function: Any, frequencies: Floats, factor: float) -> bool:
        def wanted(count: int) -> Floats:
            of_each: Floats = factor * function(np.outer(np.arange(count), frequencies))
            return of_each

        return any(np.allclose(one, wanted(len(one)), rtol=0, atol=_TABLE_TOLERANCE) for one in self.tables)


def _values(constant: Constant) -> Floats:
    return constant.values().astype(np.float64)


def _is_table(constant: Constant, count: int) -> bool:
    """Of half a head, or of a whole one, whose halves are alike."""
    return len(constant.shape) == 2 and constant.shape[0] > 1 and constant.shape[1] in (count, 2 * count)


def _asked(config: CausalConfig) -> _Asked | None:
    """None where the configuration names nothing, or a scaling that is not known here, so that nothing can be said."""
    said = _scaling(config)
    if not isinstance(said, Mapping) or any(isinstance(value, Mapping) for value in said.values()):
        return None
    kind = str(said.get("rope_type") or said.get("type") or "default")
    count = _turning(config, said)
    if count is None:
        return None
    try:
        plain = _plain(_base(config), count)
        if kind in _UNSCALED:
            return _Asked(kind, plain, 1.0, plain) if _names_base(config) else None
        if "short_factor" in said and "long_factor" in said:
            return _asked_longrope(config, said, plain)
        whole = {**config.said, "partial_rotary_factor": None}
        rope = Rope.read(whole, 2 * count, config.max_position_embeddings or 0)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, ModelError):
        return None
    return _Asked(kind, np.asarray(rope.frequencies), rope.factor, plain)


def _scaling(config: CausalConfig) -> Any:
    return config.said.get("rope_parameters") or config.said.get("rope_scaling") or {}


def _names_base(config: CausalConfig) -> bool:
    return any(isinstance(said.get("rope_theta"), int | float) for said in (_scaling(config), config.said))


def _base(config: CausalConfig) -> float:
    return float(_scaling(config).get("rope_theta") or config.said.get("rope_theta") or 10_000.0)


def _plain(base: float, count: int) -> Floats:
    """Frequencies (F,) without any scaling; raises ValueError for a base of which there are none."""
    if base <= 0:
        raise ValueError("a base is positive")
    plain: Floats = base ** (-np.arange(count, dtype=np.float64) / count)
    return plain


def _asked_longrope(config: CausalConfig, said: Mapping[str, Any], plain: Floats) -> _Asked:
    """As `_compute_longrope_parameters` of transformers' modeling_rope_utils.py."""
    short, long = (np.asarray(said[name], np.float64) for name in ("short_factor", "long_factor"))
    if not len(short) == len(long) == len(plain):
        raise ValueError("there is a factor for each pair that turns")
    longest = config.max_position_embeddings or 0
    named = config.said.get("original_max_position_embeddings")
    if not named and (config.said.get("rope_parameters") or not said.get("factor")):
        # Within `rope_scaling`, transformers 4 does not read it: there `factor` is what counts.
        named = said.get("original_max_position_embeddings")
    original = int(named or longest)
    stretch = longest / original if named else float(said.get("factor") or 1.0)
    factor = said.get("attention_factor")
    if factor is None:
        factor = 1.0 if stretch <= 1.0 else math.sqrt(1 + math.log(stretch) / math.log(original))
    changes = original < longest and not np.array_equal(short, long)
    return _Asked("longrope", plain / short, float(factor), plain, short, original if changes else None)


def _turning(config: CausalConfig, said: Mapping[str, Any]) -> int | None:
    """F."""
    size = config.said.get("qk_rope_head_dim") or config.head_dim
    if size is None and config.hidden_size and config.num_attention_heads:
        size = config.hidden_size // config.num_attention_heads
    part = (
        said.get("partial_rotary_factor") or config.said.get("partial_rotary_factor") or config.said.get("rotary_pct")
    )
    if not isinstance(size, int) or not isinstance(part or 1.0, int | float):
        return None
    return int(size * (part or 1.0)) // 2 or None
