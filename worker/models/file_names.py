"""
What the files of a model folder are called: of native models, of exports, of checkpoints.

Needs only the standard library: commands that have to start at once look for these files.
"""

from pathlib import Path

from worker.graphs.file_names import BODY, CROSS_ENCODER, HEAD, WEIGHTS
from worker.graphs.file_names import DECODER as NATIVE_DECODER
from worker.graphs.file_names import ENCODER as NATIVE_ENCODER
from worker.models.model_kind import ModelKind
from worker.text.file_names import CHAT_TEMPLATE, SENTENCEPIECE_BPE, SENTENCEPIECE_UNIGRAM

NATIVE_GRAPHS = {
    ModelKind.TRANSLATION: (NATIVE_ENCODER, NATIVE_DECODER, WEIGHTS),
    ModelKind.CAUSAL: (BODY, HEAD, WEIGHTS),
    ModelKind.CROSS_ENCODER: (CROSS_ENCODER, WEIGHTS),
}

# As Optimum exports them.
ENCODER = "encoder_model.onnx"
MERGED = "decoder_model_merged.onnx"
DECODER = "decoder_model.onnx"
WITH_PAST = "decoder_with_past_model.onnx"
CAUSAL_GRAPH = "model.onnx"

SAFETENSORS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
CHECKPOINT = (SAFETENSORS, INDEX, PICKLE, PICKLE_INDEX)

GGUF_MODEL = "model.gguf"  # the name in the layout gguf; the file may have had another before

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
GENAI_CONFIG = "genai_config.json"  # onnxruntime-genai's
CONFIGURATION = (CONFIG, GENERATION_CONFIG)

MARIAN_TOKENIZER = ("source.spm", "target.spm", "vocab.json")
MARIAN_TOKENIZER_EXTRAS = ("target_vocab.json", "tokenizer_config.json")  # not every model has them
# NLLB-200 has the first, or the last alone; M2M100 the last two.
M2M100_TOKENIZER = ("tokenizer.json", "vocab.json", SENTENCEPIECE_BPE)
MBART_TOKENIZER = ("tokenizer.json", SENTENCEPIECE_BPE)  # one of them is enough
BART_TOKENIZER = ("tokenizer.json",)
PEGASUS_TOKENIZER = ("tokenizer.json", SENTENCEPIECE_UNIGRAM)  # one of them is enough
T5_TOKENIZER = ("tokenizer.json", SENTENCEPIECE_UNIGRAM)  # one of them is enough
M2M100_TOKENIZER_EXTRAS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER = "tokenizer.json"
CAUSAL_TOKENIZER = (TOKENIZER,)
CAUSAL_TOKENIZER_EXTRAS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", CHAT_TEMPLATE)
# What sentence-transformers writes beside a cross-encoder.
CROSS_ENCODER_CONFIG, MODULES = "config_sentence_transformers.json", "modules.json"
TRANSFORMER_CONFIG = "sentence_bert_config.json"
SENTENCE_TRANSFORMERS = (CROSS_ENCODER_CONFIG, MODULES, TRANSFORMER_CONFIG)
SENTENCEPIECE = "tokenizer.model"  # in some causal models in place of tokenizer.json


def graph_places(folder: Path) -> tuple[Path, Path]:
    """Where exporters put graphs: into the folder itself, or into its folder `onnx`."""
    return folder, folder / "onnx"
