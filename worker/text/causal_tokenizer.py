"""The tokenizer of a causal model: text to ids, and where in the text each token stands.

Knows: `tokenizer.json`, and the files that name its special tokens. Does not know: windows, models, scores.

Text is always plain text: `<|endoftext|>` or `</s>` inside a document is cut like any other characters, and nothing is
put before or after it. To leave special tokens unmatched in the text is not enough for that, because some models
(Unigram, WordPiece) find them again as ordinary pieces of their vocabulary; so every special token gets a name that no
text holds before the library reads the file. Added tokens that are not special, such as runs of spaces, stay.
The file's truncation, padding and post-processor are dropped: the first two would lose or add tokens silently, the
last adds special tokens and takes white space out of the offsets.
"""

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jobs.errors import ModelError
from worker.text.offsets import BYTE_ALPHABET, to_bytes
from worker.text.tokenizer_config import apply_config

# Lanes are what works in parallel, and a worker forks its children: a pool of threads inside the library would use
# cores that other lanes have, and does not survive a fork. Whoever sets the variable knows better.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # read by every call

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_WORD_START = "▁"  # what SentencePiece, and whoever follows it, makes of a space
# The BOS that a tokenizer class of transformers 4.57 has where its files name none: those of causal models, without the
# "Tokenizer" or "TokenizerFast" behind them. Qwen2's and PreTrainedTokenizerFast have none.
_CLASS_BOS = {
    "Bloom": "<s>",
    "CodeGen": "<|endoftext|>",
    "CodeLlama": "<s>",
    "Cohere": "<BOS_TOKEN>",
    "Gemma": "<bos>",
    "GPT2": "<|endoftext|>",
    "GPTNeoX": "<|endoftext|>",
    "Llama": "<s>",
    "XGLM": "<s>",
}
# The class where the files name none either, by the `model_type` of config.json.
_MODEL_CLASS = {
    "bloom": "Bloom",
    "cohere": "Cohere",
    "deepseek_v2": "Llama",
    "deepseek_v3": "Llama",
    "gemma": "Gemma",
    "gemma2": "Gemma",
    "gemma3_text": "Gemma",
    "gpt2": "GPT2",
    "gpt_bigcode": "GPT2",
    "gpt_neo": "GPT2",
    "gpt_neox": "GPTNeoX",
    "gptj": "GPT2",
    "llama": "Llama",
    "mistral": "Llama",
    "mixtral": "Llama",
    "mpt": "GPTNeoX",
    "olmo": "GPTNeoX",
    "opt": "GPT2",
    "phi": "CodeGen",
    "phi3": "Llama",
    "stablelm": "GPTNeoX",
    "xglm": "XGLM",
}


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A text as tokens. `starts` and `stops` are UTF-8 bytes of the text; both only ever rise."""

    ids: list[int]
    starts: NDArray[np.int64]  # (T,)
    stops: NDArray[np.int64]  # (T,)


class CausalTokenizer:
    """Reads only what `open` has read: several lanes may use one at a time."""

    def __init__(self, tokenizer: Tokenizer, special: Mapping[int, str], *, bos_id: int | None, eos_id: int | None):
        """`special`: the ids that no text has, and how they are written."""
        self.bos_id = bos_id  # stands before a text; None: the model has none
        self.eos_id = eos_id
        self._ends = {token_id for token_id in (bos_id, eos_id) if token_id is not None}
        self._tokenizer = tokenizer
        self._special = special
        vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
        self._pieces = {piece_id: piece for piece, piece_id in vocabulary.items()} | dict(special)
        self._added = frozenset(tokenizer.get_added_tokens_decoder())
        description = orjson.loads(tokenizer.to_str())
        self._is_byte_level = _has_type(description["pre_tokenizer"], "ByteLevel") or _has_type(
            description["decoder"], "ByteLevel"
        )
        self._has_bytes = bool(description["model"].get("byte_fallback"))

    @classmethod
    def open(cls, folder: Path, vocab_size: int | None = None) -> Self:
        """Load the tokenizer of a model folder; raise ModelError that names the file at fault.

        `vocab_size`: of the model, where it is known; a tokenizer that makes higher ids is refused.
        """
        file = folder / "tokenizer.json"
        description = _read_object(file)
        config = _read_object(folder / "tokenizer_config.json", is_optional=True)
        names = {key: _named(folder, config, key) for key in ("bos_token", "eos_token")}
        try:
            added = _read_object(folder / "added_tokens.json", is_optional=True)
            apply_config(description, config, _class_of(folder, config), added)
            ids = _vocabulary(description)
            special = _special_contents(description, config) | {name.content for name in names.values() if name}
            written = _hide(description, special)
            tokenizer = Tokenizer.from_str(orjson.dumps(description).decode())
        except Exception as error:  # the library's own for every fault of the file; ours where it is of another shape
            raise ModelError(f"{file} describes no tokenizer ({error}): download or export it again") from error
        tokenizer.encode_special_tokens = True  # for those that could not be renamed
        for key, name in names.items():
            if name is not None and name.content not in ids:
                raise ModelError(f"{name.file} says that {key} is {name.content!r}, which {file} does not have")
        special_ids = {ids[content] for content in special if content in ids}
        bos, eos = names["bos_token"], names["eos_token"]
        opened = cls(
            tokenizer,
            written,
            bos_id=ids[bos.content] if bos else ids.get(_default_bos(folder, config)),
            eos_id=ids[eos.content] if eos else _configured_eos(folder, config, special_ids),
        )
        if vocab_size is not None and opened.max_id >= vocab_size:
            raise ModelError(
                f"{file} makes ids up to {opened.max_id:,}, and the model knows those below {vocab_size:,}: the files "
                "belong to different models"
            )
        return opened

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return max(self._pieces, default=-1) + 1

    @property
    def max_id(self) -> int:
        """The highest id that a model is ever given: of text, BOS or EOS. Padding may be higher, and models lack it."""
        return max(self._pieces.keys() - self._special.keys() | self._ends, default=-1)

    def encode(self, text: str) -> Encoded:
        """The tokens of a text, without a beginning or an end. There may be none.

        Offsets refer to the text as it was given, whatever the tokenizer does to it before it cuts. A token that is
        part of a character has the bytes that it stands for. White space that the tokenizer drops belongs to no token;
        anything else that it drops belongs to the token before.
        A lone surrogate, which JSON can carry and UTF-8 cannot, counts as U+FFFD.
        Raises ModelError where the tokenizer has no token for a character, not even an unknown one, or a regular
        expression of it gives up.
        """
        text = _SURROGATE.sub("\ufffd", text)
        try:
            # `encode` keeps the interpreter's lock to itself; with this one the other lanes go on.
            encoding = self._tokenizer.encode_batch([text], add_special_tokens=False)[0]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # nothing more special; a panic in Rust (an expression gave up) is no Exception
            raise ModelError(
                f"the model's tokenizer cannot cut the text ({error}): tokenizer.json is at fault"
            ) from error
        ids: list[int] = encoding.ids
        starts, stops = to_bytes(text, encoding.offsets, lambda place: self._num_bytes(ids[place]))
        return Encoded(ids, starts, stops)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids. Special ones say nothing."""
        text: str = self._tokenizer.decode([int(i) for i in ids if int(i) not in self._special])
        return text

    def token_text(self, token_id: int) -> str:
        """What one token says, for people to read: `▁` is a space, a byte that is no character `<0xE4>`."""
        piece = self._pieces[token_id]
        if token_id in self._added:
            return piece
        if self._is_byte_level and all(char in BYTE_ALPHABET for char in piece):
            return _readable(bytes(BYTE_ALPHABET[char] for char in piece))
        if self._has_bytes and (match := _BYTE.fullmatch(piece)):
            return _readable(bytes.fromhex(match[1]))
        return piece.replace(_WORD_START, " ")

    def _num_bytes(self, token_id: int) -> tuple[int, bool]:
        """Bytes of text that a token stands for, and whether it begins with a space."""
        piece = self._pieces[token_id]
        if token_id not in self._added:
            if self._is_byte_level:
                return len(piece), piece.startswith("Ġ")
            if self._has_bytes and _BYTE.fullmatch(piece):
                return 1, False
        spoken = piece.removeprefix("##").replace(_WORD_START, " ")
        return len(spoken.encode()), spoken.startswith(" ")


def _readable(content: bytes) -> str:
    """UTF-8 as text, with `<0xE4>` for bytes that are no character."""
    text = content.decode("utf-8", "surrogateescape")
    return _SURROGATE.sub(lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)


@dataclass(frozen=True, slots=True)
class _Named:
    """A special token as a file writes it."""

    content: str
    file: Path


def _named(folder: Path, config: Mapping[str, Any], key: str) -> _Named | None:
    """The token that the tokenizer's own files give, as transformers 4.57 reads them (tokenization_utils_base.py,
    `_from_pretrained`): tokenizer_config.json; where that is an old one, special_tokens_map.json over it."""
    file, values = folder / "tokenizer_config.json", config
    if "added_tokens_decoder" not in config:
        legacy = folder / "special_tokens_map.json"
        if key in (special := _read_object(legacy, is_optional=True)):
            file, values = legacy, special
    value = values.get(key)
    content = value.get("content") if isinstance(value, dict) else value
    if content is None:
        return None
    if not isinstance(content, str):
        raise ModelError(f"{file} says that {key} is {value!r}, which is no token: download or export it again")
    return _Named(content, file)


def _default_bos(folder: Path, config: Mapping[str, Any]) -> str:
    """What transformers takes as BOS where no file of the tokenizer speaks of it: the default of the tokenizer's class,
    and not the `bos_token_id` of config.json, which no tokenizer reads and which a configuration class writes of its
    own accord. Empty: there is none."""
    return "" if _speak_of(folder, config, "bos_token") else _CLASS_BOS.get(_class_of(folder, config), "")


def _class_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The class that transformers takes, without Tokenizer and Fast; empty where the files name none."""
    of_model = _read_object(folder / "config.json", is_optional=True)
    named = config.get("tokenizer_class") or of_model.get("tokenizer_class")
    if not isinstance(named, str):
        named = _MODEL_CLASS.get(str(of_model.get("model_type")), "")
    return named.removesuffix("Fast").removesuffix("Tokenizer")


def _configured_eos(folder: Path, config: Mapping[str, Any], special_ids: set[int]) -> int | None:
    """The id that the model's files give as EOS, where the tokenizer's files do not speak of it: generation ends there.
    Only a special token counts: a configuration class writes its own default, whatever the vocabulary has there."""
    if _speak_of(folder, config, "eos_token"):
        return None
    for name in ("generation_config.json", "config.json"):
        value = _read_object(folder / name, is_optional=True).get("eos_token_id")
        first = value[0] if isinstance(value, list) and value else value
        if first is not None:
            return first if type(first) is int and first in special_ids else None
    return None


def _speak_of(folder: Path, config: Mapping[str, Any], key: str) -> bool:
    """Whether the tokenizer's files say what a token is, or that there is none."""
    return key in config or key in _read_object(folder / "special_tokens_map.json", is_optional=True)


def _vocabulary(description: Mapping[str, Any]) -> dict[str, int]:
    """The id of every piece and added token."""
    pieces = description["model"].get("vocab")
    if isinstance(pieces, list):  # Unigram: [piece, score], by id
        pieces = {entry[0]: place for place, entry in enumerate(pieces) if isinstance(entry, list) and entry}
    added = {token["content"]: token["id"] for token in _added_tokens(description)}
    return {**(pieces if isinstance(pieces, dict) else {}), **added}


def _special_contents(description: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    """How special tokens are written, wherever they are declared."""
    declared = config.get("added_tokens_decoder")
    tokens = [*_added_tokens(description), *(declared.values() if isinstance(declared, dict) else ())]
    return {
        token["content"]
        for token in tokens
        if isinstance(token, dict) and token.get("special") and isinstance(token.get("content"), str)
    }


def _hide(description: dict[str, Any], special: Iterable[str]) -> dict[int, str]:
    """Give special tokens names that no text holds, in place; return how each of those was written, by id.

    One that text needs keeps its name: a single character, or one that merges are made of.
    """
    ids, model = _vocabulary(description), description["model"]
    needed = _merged(model)
    secret = secrets.token_hex(8)
    names = {
        content: f"\ufdd0{secret}-{ids[content]}\ufdd0"  # U+FDD0 is no character; the rest nobody can guess
        for content in special
        if content in ids and len(content) > 1 and content not in needed
    }
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(piece, piece): piece_id for piece, piece_id in vocabulary.items()}
    elif isinstance(vocabulary, list):
        for content, name in names.items():
            if ids[content] < len(vocabulary) and vocabulary[ids[content]][0] == content:
                vocabulary[ids[content]][0] = name
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    for token in _added_tokens(description):
        if token["content"] in names:
            token.update(content=names[token["content"]], special=True)
    description.update(truncation=None, padding=None, post_processor=None)
    return {ids[content]: content for content in names}


def _merged(model: Mapping[str, Any]) -> set[str]:
    """The pieces that a BPE model makes, and those that it makes them of."""
    merged: set[str] = set()
    for merge in model.get("merges") or ():
        pair = merge.split(" ", 1) if isinstance(merge, str) else merge  # both ways of writing are in use
        merged.update(pair)
        merged.add("".join(pair))
    return merged


def _added_tokens(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        token
        for token in description.get("added_tokens") or ()
        if isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int
    ]


def _has_type(part: Any, kind: str) -> bool:
    """Whether a pre-tokenizer or decoder is one of a kind, or a sequence that holds one."""
    if not isinstance(part, dict):
        return False
    inner = [*(part.get("pretokenizers") or ()), *(part.get("decoders") or ())]
    return part.get("type") == kind or any(_has_type(one, kind) for one in inner)


def _read_object(file: Path, *, is_optional: bool = False) -> dict[str, Any]:
    try:
        content = orjson.loads(file.read_bytes())
    except FileNotFoundError as error:
        if is_optional:
            return {}
        raise ModelError(
            f"{file} is missing: a causal model is read with it; export the model again, tokenizer included"
        ) from error
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{file} is not JSON ({error}): download or export it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds a JSON {type(content).__name__}, not an object")
    return content
