"""
Rotary positions (RoPE): the angle by which each pair of elements of a head is rotated per position.

Knows: the settings in config.json, of transformers 4 (`rope_theta`, `rope_scaling`) and of transformers 5
(`rope_parameters`). Does not know: graphs.

Formulas: transformers 4.57 modeling_rope_utils.py, in float32 as there: models were trained with its rounding.
Su et al. 2021 (RoFormer); Peng et al. 2023 (YaRN); Ding et al. 2024 (LongRoPE).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError

Frequencies = NDArray[np.float32]  # (H / 2,): radians per position

KINDS = ("default", "linear", "dynamic", "llama3", "yarn")
LONGROPE = "longrope"


@dataclass(frozen=True, slots=True)
class Rope:
    """The frequencies of a model, and the factor of its cosines and sines."""

    frequencies: tuple[float, ...]  # half of the rotated elements of a head
    factor: float

    @classmethod
    def read(
        cls,
        config: Mapping[str, Any],
        head_size: int,
        max_positions: int,
        *,
        is_partial: bool = False,
        kinds: Sequence[str] = KINDS,
    ) -> Self:
        """The rotation, from config.json. Raises ModelError that names a kind of scaling, or a value, not supported.

        `is_partial`: the family may rotate a part of each head. Of longrope, the factors for texts of up to
        `original_max_position_embeddings` tokens.
        """
        parameters = _parameters(config)
        kind = rope_kind(config)
        try:
            base = float(_first(parameters.get("rope_theta"), config.get("rope_theta"), 10_000.0))
            partial = float(parameters.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0)
            if partial != 1.0 and not is_partial:
                raise ModelError(f"config.json says partial_rotary_factor = {partial}; only 1 is supported")
            if not base > 0:
                raise ValueError(f"rope_theta = {base}")
            if "factor" in parameters and not 0 < float(parameters["factor"]) < math.inf:
                raise ValueError(f"factor = {parameters['factor']}")
            if kind not in kinds:
                raise ModelError(f"config.json says rope_type = {kind}; supported are {', '.join(kinds)}")
            rotated = int(head_size * partial)
            if rotated % 2 or not 0 < rotated <= head_size:
                raise ValueError(f"{rotated} of the {head_size} elements of a head are rotated")
            if kind == LONGROPE:
                original = config.get("original_max_position_embeddings")
                frequencies, factor = _longrope(parameters, base, rotated, original, max_positions)
            else:
                frequencies, factor = _frequencies(kind, parameters, base, rotated, max_positions)
            if not (np.isfinite(frequencies).all() and (frequencies > 0).all() and math.isfinite(factor)):
                raise ValueError("some frequencies are not positive numbers")
        except KeyError as error:
            raise ModelError(f"config.json gives rope parameters ({kind}) without {error}") from error
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise ModelError(f"config.json gives rope parameters ({kind}) that are invalid: {error}") from error
        return cls(tuple(map(float, frequencies)), factor)

    def rotations(self, num_positions: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines and sines of the angles at each position, (num_positions, H / 2) each."""
        angles = np.arange(num_positions, dtype=np.float32)[:, None] * np.asarray(self.frequencies, np.float32)
        return np.cos(angles) * np.float32(self.factor), np.sin(angles) * np.float32(self.factor)


def rope_kind(config: Mapping[str, Any]) -> str:
    """The kind of scaling that a config.json names. Raises ModelError where `rope_type` and its older name `type` name
    different ones: some classes of transformers read `rope_type`, others read `type`."""
    parameters = _parameters(config)
    named = {name: parameters[name] for name in ("rope_type", "type") if parameters.get(name)}
    if len({*map(str, named.values())}) > 1:
        raise ModelError(
            f"config.json gives rope parameters with rope_type = {named['rope_type']} and type = {named['type']}: "
            "leave out the one that the model was not trained with"
        )
    return str(next(iter(named.values()), "default"))


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)


def _parameters(config: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(parameters, Mapping) or any(isinstance(value, Mapping) for value in parameters.values()):
        raise ModelError(
            "config.json gives rope parameters by types of layers; only one set for all layers is supported"
        )
    return parameters


def _frequencies(
    kind: str, parameters: Mapping[str, Any], base: float, head_size: int, max_positions: int
) -> tuple[Frequencies, float]:
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    plain: Frequencies = (np.float32(1) / np.float32(base) ** exponents).astype(np.float32)
    match kind:
        case "default" | "dynamic":  # dynamic differs beyond max_position_embeddings alone, where texts end here
            return plain, 1.0
        case "linear":
            return plain / np.float32(parameters["factor"]), 1.0
        case "llama3":
            return _llama3(plain, parameters), 1.0
        case "yarn":
            original = int(parameters.get("original_max_position_embeddings") or max_positions)
            return _yarn(plain, parameters, base, head_size, original), _attention_factor(parameters)
        case _:
            raise AssertionError(kind)


def _llama3(plain: Frequencies, parameters: Mapping[str, Any]) -> Frequencies:
    """Low frequencies are divided by `factor`, high ones stay, those between are interpolated."""
    factor, low, high = (float(parameters[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    original = float(parameters["original_max_position_embeddings"])
    wavelengths = 2 * math.pi / plain
    smooth = (original / wavelengths - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    slow = wavelengths > original / low
    fast = wavelengths < original / high
    scaled: Frequencies = np.where(slow, plain / factor, np.where(fast, plain, between)).astype(np.float32)
    return scaled


def _yarn(plain: Frequencies, parameters: Mapping[str, Any], base: float, head_size: int, original: int) -> Frequencies:
    """Frequencies with many rotations within `original` positions stay; frequencies with few are divided by
    `factor`."""

    def pair_of(num_rotations: float) -> float:
        return head_size * math.log(original / (num_rotations * 2 * math.pi)) / (2 * math.log(base))

    first = pair_of(float(parameters.get("beta_fast") or 32))
    last = pair_of(float(parameters.get("beta_slow") or 1))
    if parameters.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_size - 1)
    if first == last:
        last += 0.001  # as transformers does
    slowed = np.clip((np.arange(head_size // 2, dtype=np.float32) - first) / (last - first), 0, 1)
    scaled: Frequencies = (plain / np.float32(parameters["factor"]) * slowed + plain * (1 - slowed)).astype(np.float32)
    return scaled


def _longrope(
    parameters: Mapping[str, Any], base: float, rotated: int, original: int | None, max_positions: int
) -> tuple[Frequencies, float]:
    """Each frequency has a divisor of its own (Ding et al. 2024); these are the divisors for short texts."""
    divisors = np.asarray(parameters["short_factor"], np.float32)
    if divisors.shape != (rotated // 2,):
        raise ValueError(f"short_factor has the shape {divisors.shape}, and {rotated // 2} pairs are rotated")
    exponents = np.arange(0, rotated, 2, dtype=np.float32) / np.float32(rotated)
    frequencies: Frequencies = (1 / (divisors * np.float32(base) ** exponents)).astype(np.float32)
    if (given := parameters.get("attention_factor")) is not None:
        return frequencies, float(given)
    factor = max_positions / original if original else float(parameters["factor"])
    length = original or max_positions
    return frequencies, 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(length))


def _attention_factor(parameters: Mapping[str, Any]) -> float:
    """The temperature of attention for longer contexts (YaRN, section 3.4)."""
    if (given := parameters.get("attention_factor")) is not None:
        return float(given)
    factor = float(parameters["factor"])
    scale, scale_all = parameters.get("mscale"), parameters.get("mscale_all_dim")
    if scale and scale_all:
        return _magnitude(factor, float(scale)) / _magnitude(factor, float(scale_all))
    return _magnitude(factor, 1.0)


def _magnitude(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0
