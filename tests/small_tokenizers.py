"""A small tokenizer of each kind that causal models have; spelled out, because training varies from run to run."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from worker.text.causal_tokenizer import CausalTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def byte_level(*, ignore_merges: bool = False) -> Tokenizer:
    """Byte-level BPE, as in GPT-2, Qwen2 and Llama 3; normalizes to NFC, as Qwen2 does."""
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("Ã", "©")]
    merges += [("ð", "Ł"), ("ðŁ", "ĺ"), ("å", "Ń"), ("åŃ", "Ĺ"), ("Ġ", "åŃĹ")]  # parts of emoji; 字; a space and 字
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    tokenizer = Tokenizer(models.BPE(vocab=_numbered(pieces), merges=merges, ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    return tokenizer


def metaspace() -> Tokenizer:
    """A Unigram model, as in T5: NFKC, `▁` before each word, `</s>` among its ordinary pieces."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("he", -3.0), ("▁hello", -4.0), ("▁wor", -4.5)]
    pieces += [(letter, -5.0 - place / 8) for place, letter in enumerate(LETTERS + "</>é字")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def byte_fallback() -> Tokenizer:
    """BPE over characters, as in Llama 2: `▁` is put before the text, unknown characters become bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghilnorstwx字", "▁h", "el"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab=_numbered(pieces),
            merges=[("▁", "h"), ("e", "l")],
            byte_fallback=True,
            unk_token="<unk>",
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def word_piece() -> Tokenizer:
    """WordPiece, as in BERT: lower case, NFC, no white space; cut only at white space, so that `[SEP]` is one word."""
    pieces = ["[UNK]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "hello", "wor", "cafe", "[", "##]"]
    tokenizer = Tokenizer(models.WordPiece(vocab=_numbered(pieces), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.BertNormalizer(lowercase=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[UNK]", "[SEP]"])
    return tokenizer


def _numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: place for place, piece in enumerate(pieces)}


KINDS = {
    "byte-level": byte_level,
    "metaspace": metaspace,
    "byte-fallback": byte_fallback,
    "word-piece": word_piece,
}


def write(folder: Path, tokenizer: Tokenizer, **files: dict[str, Any]) -> Path:
    """Write a model folder with the tokenizer and JSON files; `config={…}` gives config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def opened(folder: Path, tokenizer: Tokenizer, **files: dict[str, Any]) -> CausalTokenizer:
    return CausalTokenizer.open(write(folder, tokenizer, **files))
