"""
The architectures that native graphs are built for, by the names in config.json.

Knows: `architectures` and `model_type`. Does not know: sizes, files. Needs only the standard library.
"""

from collections.abc import Mapping
from typing import Any

MARIAN, M2M100, BART, MBART, PEGASUS = "marian", "m2m_100", "bart", "mbart", "pegasus"
T5, MT5 = "t5", "mt5"
# The name of the class in transformers, as in `architectures` of config.json -> its `model_type`.
CAUSAL_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "GemmaForCausalLM": "gemma",
    "GraniteForCausalLM": "granite",
    "OlmoForCausalLM": "olmo",
    "Olmo2ForCausalLM": "olmo2",
    "StableLmForCausalLM": "stablelm",
    "SmolLM3ForCausalLM": "smollm3",
    "Phi3ForCausalLM": "phi3",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "GPTNeoXForCausalLM": "gpt_neox",
    "PhiForCausalLM": "phi",
    "GPT2LMHeadModel": "gpt2",
    "OPTForCausalLM": "opt",
    "BloomForCausalLM": "bloom",
    "FalconForCausalLM": "falcon",
}
SEQ2SEQ_ARCHITECTURES = {
    "MarianMTModel": MARIAN,
    "M2M100ForConditionalGeneration": M2M100,
    "BartForConditionalGeneration": BART,
    "MBartForConditionalGeneration": MBART,
    "PegasusForConditionalGeneration": PEGASUS,
    "T5ForConditionalGeneration": T5,
    "MT5ForConditionalGeneration": MT5,
}
CROSS_ENCODER_ARCHITECTURES = {
    "BertForSequenceClassification": "bert",
    "RobertaForSequenceClassification": "roberta",
    "XLMRobertaForSequenceClassification": "xlm-roberta",
    "ModernBertForSequenceClassification": "modernbert",
}
# Names that classes had in older releases of transformers, as in t5-3b and t5-11b.
_RENAMED = {"T5WithLMHeadModel": "T5ForConditionalGeneration"}
_HEADS = ("LMHeadModel", "ForCausalLM", "ForConditionalGeneration", "MTModel")  # how their names end
_KINDS = (SEQ2SEQ_ARCHITECTURES, CAUSAL_ARCHITECTURES, CROSS_ENCODER_ARCHITECTURES)
CROSS_ENCODERS = tuple(CROSS_ENCODER_ARCHITECTURES.values())
ARCHITECTURES = {**SEQ2SEQ_ARCHITECTURES, **CAUSAL_ARCHITECTURES, **CROSS_ENCODER_ARCHITECTURES}


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """The model_type of the architecture that a config.json names; None if it names none, or one that is not in
    `ARCHITECTURES`."""
    named = config.get("architectures") or []
    model_type = str(config.get("model_type"))
    of_type = model_type if model_type in ARCHITECTURES.values() else None
    if isinstance(named, list) and len(named) == 1:
        name = _RENAMED.get(str(named[0]), str(named[0]))
        of_class = ARCHITECTURES.get(name) or ARCHITECTURES.get(_with_head(name))
        if of_class is None or of_type is None or of_class == of_type:
            return of_class
        # AutoModel of transformers goes by model_type, and takes its class of the same kind.
        return of_type if any({of_class, of_type} <= {*kind.values()} for kind in _KINDS) else None
    return of_type if not named else None


def lacks_head(config: Mapping[str, Any]) -> bool:
    """Whether a config.json names a network without its head (LlamaModel), as AutoModel saves it."""
    named = config.get("architectures") or []
    return isinstance(named, list) and len(named) == 1 and _with_head(str(named[0])) in ARCHITECTURES


def _with_head(name: str) -> str:
    """LlamaForCausalLM for LlamaModel, BartForConditionalGeneration for BartModel; empty for another form of name."""
    stem = name.removesuffix("Model")
    if stem == name:
        return ""
    return next((f"{stem}{head}" for head in _HEADS if f"{stem}{head}" in ARCHITECTURES), "")
