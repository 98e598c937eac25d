"""Folders that hold only the files of older tokenizers, tiny and spelled out; and texts that are hard to cut."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import pre_tokenizers

from worker.text.causal_tokenizer import BYTE_ALPHABET

Files = dict[str, Any]  # by name: lines of a text file, or the content of a JSON file

FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
END = "<|endoftext|>"
WORDS = (
    *("the", " the", " rain", " Rain", "ing", "'s", " don", "'t", " 12", "345", "  ", "\n", "\n\n", "...", " ("),
    *(" 中文", "字", " é", "e\u0301", "😀", "한국", " Привет", "\x00", "\u00a0", "\u3000", "<x>", " <x>"),
)
_NASTY = (
    *(
        "",
        " ",
        "   ",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "a\x00b",
        "\ufeff",
        "\u200b",
        "\u00a0",
        "\u3000x",
        "\u2028y",
        "\x85z",
    ),
    *(
        "the rain's falling",
        "Don't  STOP",
        "it'S 12345 x٣٤",
        "e\u0301é É ñ Å ﬁ Ⅻ ½",
        "İstanbul ß ẞ ς",
        "中文 字a漢b",
        "한국어",
    ),
    *(
        "😀👩‍👩‍👧🇩🇪",
        "ไทย हिन्दी עִברִית العربية",
        "a-b_c/d\\e",
        "  two  spaces  ",
        "line\n\nline\n",
        "<x>a <x> b<x>",
        "ſ K Å",
        "\ufffd",
    ),
    *(
        "x" * 120,
        "## #a a## [ ] {}",
        "¡¿«»“”‘’—…",
        "\u0301\u0301a",
        "A\u030a",
        "𝔘𝔫𝔦",
        "\U0010ffff",
        "\ufdd0",
        "\x1b[0m",
        "\x7f",
    ),
)


def texts(count: int = 200) -> list[str]:
    """Texts that are hard to cut, and made-up ones; without names of special tokens."""
    rng = Random(7)
    made = (" ".join(rng.choices((*WORDS, *_NASTY), k=rng.randint(1, 6))) for _ in range(count))
    return [*_NASTY, *made, *("".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(count))]


def byte_level_files(name: str | None, special: tuple[str, ...] = (), **config: Any) -> Files:
    """vocab.json and merges.txt of a tokenizer class: `special` tokens, all bytes, and what merges into `WORDS`.
    `config`: tokenizer_config.json, with the class unless `name` is None."""
    letters = {byte: letter for letter, byte in BYTE_ALPHABET.items()}
    merges: dict[tuple[str, str], None] = {}
    for word in WORDS:
        spelled = [letters[byte] for byte in word.encode()]
        while len(spelled) > 1:  # by halves, as a trained vocabulary merges
            merges.update(((one, other), None) for one, other in [*pairwise(spelled)][::2])
            spelled = ["".join(spelled[place : place + 2]) for place in range(0, len(spelled), 2)]
    pieces = dict.fromkeys([*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)])
    return {
        "vocab.json": {piece: place for place, piece in enumerate(pieces)},
        "merges.txt": ["#version: 0.2", *map(" ".join, merges)],
        "tokenizer_config.json": {"tokenizer_class": f"{name}Tokenizer", **config} if name else config,
    }


def wordpiece_files(name: str | None, special: tuple[str, ...] = BERT, **config: Any) -> Files:
    """vocab.txt of BERT's class: `special` tokens, letters, and what `WORDS` are cut into. `config`: as above."""
    small = [one.strip().lower() for one in WORDS]
    words = [word for one in small for word in (one, one[: len(one) // 2], "##" + one[len(one) // 2 :])]
    letters = [letter for one in ("".join(small), "abcdefghijklmnopqrstuvwxyz0123456789", "RDI") for letter in one]
    pieces = dict.fromkeys([*special, *words, *letters, *("##" + letter for letter in letters)])
    return {
        "vocab.txt": [piece for piece in pieces if piece.removeprefix("##").strip()],
        "tokenizer_config.json": {"tokenizer_class": f"{name}Tokenizer", **config} if name else config,
    }


def written(folder: Path, files: Files) -> Path:
    """Write the files into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        text = "".join(f"{line}\n" for line in content) if isinstance(content, list) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def split(folder: Path) -> None:
    """Replace the tokenizer.json of a folder by the older files of the same vocabulary."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    if model["type"] == "WordPiece":
        pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
        return
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = (" ".join(pair) for pair in model["merges"])
    (folder / "merges.txt").write_text("".join(f"{line}\n" for line in ("#version: 0.2", *merges)))


def _token(content: str, **flags: bool) -> dict[str, Any]:
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, **flags}


def _opt() -> Files:
    """facebook/opt-125m: the class is that of GPT-2, and its settings another."""
    named = {
        key: {"__type": "AddedToken", **_token("</s>", normalized=True)}
        for key in ("bos_token", "eos_token", "unk_token")
    }
    files = byte_level_files("GPT2", FAIRSEQ, add_bos_token=True, **named, pad_token="<pad>", errors="replace")
    special = {key: _token("</s>", normalized=True) for key in named} | {"pad_token": "<pad>"}
    return files | {"special_tokens_map.json": special, "config.json": {"model_type": "opt"}}


def _legacy(name: str) -> Files:
    """Added tokens in two files of their own."""
    files = byte_level_files(name, (END,), additional_special_tokens=["<a>"])
    size = len(files["vocab.json"])
    special = {"additional_special_tokens": ["<b>"], "eos_token": _token(END, normalized=True)}
    added = {"<b>": size, "tool": size + 1, " x<": size + 2}
    return files | {"special_tokens_map.json": special, "added_tokens.json": added}


def _legacy_bert() -> Files:
    files = wordpiece_files("Bert", additional_special_tokens=["[E1]"])
    size = len(files["vocab.txt"])
    special = {"additional_special_tokens": ["[E2]"], "cls_token": _token("[CLS]", normalized=False)}
    return files | {"special_tokens_map.json": special, "added_tokens.json": {"[E2]": size, "Rain": size + 1}}


def _declared(name: str) -> Files:
    """Added tokens in tokenizer_config.json."""
    files = byte_level_files(name, (END,), pad_token="<pad>")
    size = len(files["vocab.json"])
    tokens = [_token("<pad>", special=True), _token("rain", normalized=True, special=False, lstrip=True)]
    tokens.append(_token("字字", normalized=True, special=False, single_word=True))
    files["tokenizer_config.json"]["added_tokens_decoder"] = {
        str(size + place): token for place, token in enumerate(tokens)
    }
    return files


CASES: dict[str, Callable[[], Files]] = {
    "GPT-2, of config.json": lambda: byte_level_files(None, (END,)) | {"config.json": {"model_type": "gpt2"}},
    "GPT-2, a space before": lambda: byte_level_files("GPT2", (END,), add_prefix_space=True),
    "GPT-2, no special pieces": lambda: byte_level_files("GPT2"),
    "GPT-2, legacy tokens": lambda: _legacy("GPT2"),
    "GPT-2, declared tokens": lambda: _declared("GPT2"),
    "OPT": _opt,
    "BART": lambda: byte_level_files(None, (*FAIRSEQ, "<mask>")) | {"config.json": {"model_type": "bart"}},
    "BART, without a mask": lambda: byte_level_files("Bart", FAIRSEQ, mask_token=None),
    "RoBERTa": lambda: byte_level_files("Roberta", FAIRSEQ),
    "RoBERTa, other ends": lambda: byte_level_files(
        "Roberta", ("[A]", "[B]"), add_prefix_space=True, cls_token="[A]", sep_token="[B]"
    ),
    "RoBERTa, legacy tokens": lambda: _legacy("Roberta"),
    "Qwen2": lambda: byte_level_files("Qwen2", (END,)) | {"config.json": {"model_type": "qwen2"}},
    "Qwen2, declared tokens": lambda: _declared("Qwen2"),
    "Qwen2, legacy tokens": lambda: _legacy("Qwen2"),
    "BERT, of config.json": lambda: wordpiece_files(None) | {"config.json": {"model_type": "bert"}},
    "BERT, large letters": lambda: wordpiece_files("Bert", do_lower_case=False, tokenize_chinese_chars=False),
    "BERT, large letters without accents": lambda: wordpiece_files("Bert", do_lower_case=False, strip_accents=True),
    "BERT, accents": lambda: wordpiece_files("Bert", strip_accents=False, do_basic_tokenize=False, never_split=None),
    "BERT, other ends": lambda: wordpiece_files(
        "Bert", ("<pad>", "<s>", "</s>", "<unk>"), cls_token="<s>", sep_token="</s>", unk_token="<unk>"
    ),
    "BERT, ends that are no pieces": lambda: wordpiece_files("Bert", ("[UNK]",)),
    "BERT, legacy tokens": _legacy_bert,
}


def pairs(found: list[str]) -> Iterator[tuple[str, str]]:
    """Neighbours, as a query and a document."""
    return pairwise(found)
