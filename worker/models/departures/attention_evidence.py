"""
Whether a graph has what the configuration asks of attention and of the head: soft caps, clips, scales, ALiBi.

Exporters that write attention as products and a softmax show each of these as a node with a constant. Fused attention
has attributes for some and nothing for the rest. Where neither kind of attention is found, nothing definite is said.
"""

import math
from collections.abc import Iterator, Sequence

from worker.models.departures.evidence import Contradiction, Departure, Limit, Suspicion
from worker.models.departures.graph_content import GraphContent, Node
from worker.models.layout.causal_config import CausalConfig

FUSED = ("GroupQueryAttention", "MultiHeadAttention", "Attention", "PagedAttention", "DecoderMaskedMultiHeadAttention")
_TOLERANCE = 1e-2  # relative: constants in float16 and bfloat16 are rounded
_BFLOAT16 = 16  # TensorProto.DataType
EXACT_IN_BFLOAT16 = 256  # the last of the integers that bfloat16 has without a gap


def soft_caps(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """Gemma-2's `attn_logit_softcapping` (of scores) and `final_logit_softcapping` (of logits): cap x tanh(x / cap)."""
    final = _positive(config, "final_logit_softcapping")
    scores = _positive(config, "attn_logit_softcapping")
    if not final and not scores:
        return
    caps = [cap for node in content.of("Tanh") if (cap := _cap(content, node))]
    of_logits = [cap for cap in caps if final and _is_near(cap, final)][:1]
    if final and not of_logits:
        yield _missing(content, f"final_logit_softcapping = {final:g}", "caps its logits nowhere")
    if not scores:
        return
    fused = _fused(content)
    if fused:
        shown = all(_is_near(float(node.attributes.get("softcap", 0.0)), scores) for node in fused)
    else:
        shown = sum(_is_near(cap, scores) for cap in caps) > (bool(of_logits) and _is_near(scores, final))
    if not shown:
        yield _missing(content, f"attn_logit_softcapping = {scores:g}", "caps the scores of attention nowhere")


def clip_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """OLMo's and MPT's `clip_qkv`: queries, keys and values between -clip and clip."""
    clip = _positive(config, "clip_qkv") or _positive(config, "clip_qkv", within="attn_config")
    if not clip:
        return
    limits = (content.number(name) for node in content.of("Clip", "Min", "Max") for name in node.inputs if name)
    attributes = (node.attributes.get("max") for node in content.of("Clip"))
    if not any(value is not None and _is_near(abs(float(value)), clip) for value in (*limits, *attributes)):
        yield Contradiction(f"config.json asks for clip_qkv = {clip:g}, and the graph clips nothing at it")


def layer_scale_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """GPT-2's `scale_attn_by_inverse_layer_idx`: scores of the layer N (from 0) are divided by N + 1."""
    layers = config.num_hidden_layers
    if not config.said.get("scale_attn_by_inverse_layer_idx") or not layers or layers < 2:
        return
    if not config.hidden_size or not config.num_attention_heads:
        return
    root = math.sqrt(config.hidden_size / config.num_attention_heads)
    if fused := _fused(content):
        scales = [float(node.attributes.get("scale", 0.0)) or 1 / root for node in fused]
        shown = len(scales) == layers and all(_is_near(one, 1 / root / (n + 1)) for n, one in enumerate(scales))
    else:
        # By the number itself, or with the root of the head size in it, wholly or half on queries and half on keys.
        written = {content.number(name) for node in content.of("Mul", "Div") for name in node.inputs}
        numbers = [abs(one) for one in written if one]
        forms = ((1.0, 1.0), (root, 1.0), (root, 0.5))
        shown = any(
            all(_is_any((first * (n + 1)) ** power, numbers) for n in range(1, layers)) for first, power in forms
        )
    if not shown:
        what = "scale_attn_by_inverse_layer_idx"
        yield _missing(content, what, "scales the scores of all layers alike")


def score_scale_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """GPT-2's `scale_attn_weights` = false: scores are not divided by the root of the head size. transformers' sdpa
    attention, which exporters trace, divides them all the same."""
    if config.said.get("model_type") != "gpt2" or config.said.get("scale_attn_weights") is not False:
        return
    if not config.hidden_size or not config.num_attention_heads:
        return
    root = math.sqrt(config.hidden_size / config.num_attention_heads)
    if fused := _fused(content):
        divides = root != 1 and any(
            _is_near(float(node.attributes.get("scale", 0.0)) or 1 / root, 1 / root) for node in fused
        )
    else:
        divides = any(_is_of_root(content, factor, root) for factor in _score_factors(content))
    if divides:
        what = "scale_attn_weights = false"
        yield Contradiction(f"config.json asks for {what}, and the graph divides scores by the root of the head size")


def alibi_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """Falcon's ALiBi (Falcon-RW): transformers rounds slope times position to bfloat16, as it was trained, and exports
    do not. With slopes that are powers of two, the product is exact as long as the position is."""
    heads = config.num_attention_heads
    if config.said.get("model_type") != "falcon" or not config.said.get("alibi") or not heads:
        return
    exact = EXACT_IN_BFLOAT16 + 1  # tokens
    if heads in (1, 2, 4, 8) and (config.max_position_embeddings or exact + 1) <= exact:
        return
    if any(node.attributes.get("to") == _BFLOAT16 for node in content.of("Cast")):
        return
    if heads in (1, 2, 4, 8):
        yield Limit(
            exact,
            f"transformers rounds Falcon's alibi to bfloat16, which changes it from position {exact} "
            "on, and this graph does not",
        )
    else:
        yield Contradiction(
            f"config.json asks for the alibi of Falcon, which transformers rounds to bfloat16 (with {heads} heads at "
            "nearly every position), and the graph does not round it"
        )


def _score_factors(content: GraphContent) -> Iterator[str]:
    """What scores are multiplied with or divided by, or queries and keys just before they meet."""
    names = [node.inputs[0] for node in content.of("Softmax")]
    seen: set[str] = set()
    while names:
        name = names.pop()
        node = content.maker(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.op == "MatMul":
            for side in node.inputs:
                before = content.maker(side)
                if before is not None and before.op in ("Mul", "Div"):
                    yield from before.inputs
        elif node.op in ("Mul", "Div"):
            yield from node.inputs
            names += node.inputs[:1] if node.op == "Div" else node.inputs
        elif node.op in ("Add", "Where"):
            names += node.inputs


def _is_of_root(content: GraphContent, name: str, root: float) -> bool:
    """Whether a factor is the root of the head size, or half of it on either side; or one that the graph works out."""
    number = content.number(name)
    if number is None:
        maker = content.maker(name)
        return maker is not None and maker.op == "Sqrt"
    return root != 1 and any(_is_any(form, [abs(number)]) for form in (root, math.sqrt(root)))


def _cap(content: GraphContent, tanh: Node) -> float | None:
    """What a Tanh's input is divided by; None where it is not, as in an activation."""
    before = content.maker(tanh.inputs[0])
    if before is None or before.op not in ("Div", "Mul"):
        return None
    numbers = [content.number(name) for name in before.inputs]
    if before.op == "Div":
        return numbers[1]
    factor = next((one for one in numbers if one), None)
    return 1 / factor if factor else None


def _missing(content: GraphContent, setting: str, instead: str) -> Departure:
    if _fused(content) or content.of("Softmax"):
        return Contradiction(f"config.json asks for {setting}, and the graph {instead}")
    return Suspicion(f"config.json asks for {setting}, which is not seen in the graph")


def _fused(content: GraphContent) -> list[Node]:
    return content.of(*FUSED)


def _positive(config: CausalConfig, name: str, *, within: str | None = None) -> float | None:
    """A setting that is a number and on."""
    said = config.said.get(within, {}) if within else config.said
    value = said.get(name) if isinstance(said, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _is_near(value: float, wanted: float | None) -> bool:
    return wanted is not None and math.isclose(value, wanted, rel_tol=_TOLERANCE)


def _is_any(wanted: float, numbers: Sequence[float]) -> bool:
    """As a divisor or as a factor."""
    return any(_is_near(one, wanted) or _is_near(one, 1 / wanted) for one in numbers)
