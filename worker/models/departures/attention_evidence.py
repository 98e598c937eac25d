"""
Whether a graph has the settings of attention and of the head: soft caps, clips, scales, ALiBi.

Exporters that write attention as products and a softmax show each of these as a node with a constant. Fused attention
has attributes for some of them and nothing for the rest. Where a graph has neither kind of attention, a missing setting
is a suspicion at most.
"""

import math
from collections.abc import Iterator, Sequence

from worker.models.departures.evidence import Contradiction, Departure, Limit, Suspicion
from worker.models.departures.graph_content import GraphContent, Node
from worker.models.layout.causal_config import CausalConfig

FUSED = ("GroupQueryAttention", "MultiHeadAttention", "Attention", "PagedAttention", "DecoderMaskedMultiHeadAttention")
_TOLERANCE = 1e-2  # relative: constants in float16 and bfloat16 are rounded
_BFLOAT16 = 16  # TensorProto.DataType
EXACT_IN_BFLOAT16 = 256  # bfloat16 has every integer up to this one


def soft_caps(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """Gemma-2's `attn_logit_softcapping` (of scores) and `final_logit_softcapping` (of logits): cap x tanh(x / cap)."""
    final = _positive(config, "final_logit_softcapping")
    scores = _positive(config, "attn_logit_softcapping")
    if not final and not scores:
        return
    caps = [cap for node in content.nodes_of("Tanh") if (cap := _cap(content, node))]
    on_logits = [cap for cap in caps if final and _is_near(cap, final)][:1]
    if final and not on_logits:
        yield _missing(content, f"final_logit_softcapping = {final:g}", "caps its logits nowhere")
    if not scores:
        return
    fused = _fused(content)
    if fused:
        shown = all(_is_near(float(node.attributes.get("softcap", 0.0)), scores) for node in fused)
    else:
        shown = sum(_is_near(cap, scores) for cap in caps) > (bool(on_logits) and _is_near(scores, final))
    if not shown:
        yield _missing(content, f"attn_logit_softcapping = {scores:g}", "caps the scores of attention nowhere")


def clip_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """OLMo's and MPT's `clip_qkv`: queries, keys and values are clipped to -clip .. clip."""
    clip = _positive(config, "clip_qkv") or _positive(config, "clip_qkv", within="attn_config")
    if not clip:
        return
    limits = (content.scalar(name) for node in content.nodes_of("Clip", "Min", "Max") for name in node.inputs if name)
    attributes = (node.attributes.get("max") for node in content.nodes_of("Clip"))
    if not any(value is not None and _is_near(abs(float(value)), clip) for value in (*limits, *attributes)):
        yield Contradiction(f"config.json asks for clip_qkv = {clip:g}, and the graph clips nothing at it")


def layer_scale_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """GPT-2's `scale_attn_by_inverse_layer_idx`: the scores of layer n (from 0) are divided by n + 1."""
    layers = config.num_hidden_layers
    if not config.content.get("scale_attn_by_inverse_layer_idx") or not layers or layers < 2:
        return
    root = _root_of_head_size(config)
    if root is None:
        return
    if fused := _fused(content):
        scales = [float(node.attributes.get("scale", 0.0)) or 1 / root for node in fused]
        shown = len(scales) == layers and all(_is_near(scale, 1 / root / (n + 1)) for n, scale in enumerate(scales))
    else:
        # Divided by n + 1, by n + 1 times the root of the head size, or by the root of that product on either side.
        written = {content.scalar(name) for node in content.nodes_of("Mul", "Div") for name in node.inputs}
        numbers = [abs(number) for number in written if number]
        forms = ((1.0, 1.0), (root, 1.0), (root, 0.5))
        shown = any(
            all(_is_any((first * (n + 1)) ** power, numbers) for n in range(1, layers)) for first, power in forms
        )
    if not shown:
        what = "scale_attn_by_inverse_layer_idx"
        yield _missing(content, what, "scales the scores of all layers alike")


def score_scale_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """GPT-2's `scale_attn_weights` = false: scores are not divided by the root of the head size. The sdpa attention of
    transformers, which exporters trace, divides them all the same."""
    if config.content.get("model_type") != "gpt2" or config.content.get("scale_attn_weights") is not False:
        return
    root = _root_of_head_size(config)
    if root is None:
        return
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
    """Falcon's ALiBi (Falcon-RW): transformers rounds slope times position to bfloat16, as in training, and exports do
    not. Where slopes are powers of two, the product is exact as long as the position is."""
    heads = config.num_attention_heads
    if config.content.get("model_type") != "falcon" or not config.content.get("alibi") or not heads:
        return
    exact = EXACT_IN_BFLOAT16 + 1  # tokens
    if heads in (1, 2, 4, 8) and (config.max_position_embeddings or exact + 1) <= exact:
        return
    if any(node.attributes.get("to") == _BFLOAT16 for node in content.nodes_of("Cast")):
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


def _root_of_head_size(config: CausalConfig) -> float | None:
    """The divisor of attention scores; None if the configuration lacks the sizes."""
    if not config.hidden_size or not config.num_attention_heads:
        return None
    return math.sqrt(config.hidden_size / config.num_attention_heads)


def _score_factors(content: GraphContent) -> Iterator[str]:
    """The factors and divisors of scores, and of queries and keys right before their product."""
    names = [node.inputs[0] for node in content.nodes_of("Softmax")]
    seen: set[str] = set()
    while names:
        name = names.pop()
        node = content.producer(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.op == "MatMul":
            for side in node.inputs:
                before = content.producer(side)
                if before is not None and before.op in ("Mul", "Div"):
                    yield from before.inputs
        elif node.op in ("Mul", "Div"):
            yield from node.inputs
            names += node.inputs[:1] if node.op == "Div" else node.inputs
        elif node.op in ("Add", "Where"):
            names += node.inputs


def _is_of_root(content: GraphContent, name: str, root: float) -> bool:
    """Whether a factor is the root of the head size, the root of that (on either side), or a root that is computed."""
    number = content.scalar(name)
    if number is None:
        producer = content.producer(name)
        return producer is not None and producer.op == "Sqrt"
    return root != 1 and any(_is_any(form, [abs(number)]) for form in (root, math.sqrt(root)))


def _cap(content: GraphContent, tanh: Node) -> float | None:
    """The divisor of a Tanh's input; None where it is not divided, as in an activation."""
    before = content.producer(tanh.inputs[0])
    if before is None or before.op not in ("Div", "Mul"):
        return None
    numbers = [content.scalar(name) for name in before.inputs]
    if before.op == "Div":
        return numbers[1]
    factor = next((number for number in numbers if number), None)
    return 1 / factor if factor else None


def _missing(content: GraphContent, setting: str, instead: str) -> Departure:
    if _fused(content) or content.nodes_of("Softmax"):
        return Contradiction(f"config.json asks for {setting}, and the graph {instead}")
    return Suspicion(f"config.json asks for {setting}, which is not seen in the graph")


def _fused(content: GraphContent) -> list[Node]:
    return content.nodes_of(*FUSED)


def _positive(config: CausalConfig, name: str, *, within: str | None = None) -> float | None:
    """A setting that is a positive number; `within`: the object of the configuration that has it."""
    settings = config.content.get(within, {}) if within else config.content
    value = settings.get(name) if isinstance(settings, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _is_near(value: float, wanted: float | None) -> bool:
    return wanted is not None and math.isclose(value, wanted, rel_tol=_TOLERANCE)


def _is_any(wanted: float, numbers: Sequence[float]) -> bool:
    """Whether one of the numbers is `wanted`, as a divisor or as a factor."""
    return any(_is_near(number, wanted) or _is_near(number, 1 / wanted) for number in numbers)
