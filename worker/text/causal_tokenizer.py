"""The tokenizer of a causal model: text to ids, and the span of each token in the text.

Knows: `tokenizer.json`, and the files that name its special tokens. Does not know: windows, models, scores.

Text is always plain text: `<|endoftext|>` or `</s>` inside a document is tokenized like any other characters, and no
special token is added before or after it. Each special token is renamed, before the library reads the file
(`worker.text.special_tokens`). Added tokens that are not special, like runs of spaces, stay.
The file's truncation, padding and post-processor are dropped: the first two would lose or add tokens silently, the
last adds special tokens and excludes white space from the offsets.

Spans are in UTF-8 bytes. The library gives each token that is part of a character the span of the whole character; a
character that a normalizer inserts, the span of the next one; characters that a normalizer merges (`e` + U+0301), only
the span of the first.
"""

import functools
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from jobs.errors import ModelError
from worker.text.special_tokens import (
    class_of,
    configured_eos,
    default_bos,
    named_token,
    rename_special,
    special_contents,
    vocabulary,
)
from worker.text.tokenizer_config import apply_config
from worker.text.tokenizer_files import read_object

# The lanes of a worker run in parallel, and the worker forks: a thread pool inside the library would compete with other
# lanes for cores, and does not survive a fork. A user can still set the variable.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # read on every call
_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_WORD_START = "▁"  # how SentencePiece and others write a space
_ADDS_BOS = ("Llama", "CodeLlama", "Gemma", "Cohere")  # unless add_bos_token says otherwise


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A text as tokens. `starts` and `stops` are offsets in UTF-8 bytes; neither ever decreases."""

    ids: list[int]
    starts: NDArray[np.int64]  # (T,)
    stops: NDArray[np.int64]  # (T,)


class CausalTokenizer:
    """Immutable after `open`, so several lanes may share one."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        special: Mapping[int, str],
        *,
        bos_id: int | None,
        eos_id: int | None,
        beginning: tuple[int, ...] = (),
    ):
        """`special`: by id, the content of the special tokens, which `encode` never gives. `beginning`: the ids before
        a prompt."""
        self.bos_id = bos_id  # the id of the BOS token; None: the model has none
        self.eos_id = eos_id
        self._beginning = beginning
        self._ends = {token_id for token_id in (bos_id, eos_id) if token_id is not None}
        self._tokenizer = tokenizer
        self._special = special
        vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
        self._pieces = {piece_id: piece for piece, piece_id in vocabulary.items()} | dict(special)
        added = tokenizer.get_added_tokens_decoder()
        self._added = frozenset(added)
        self._silent = {*special, *(token_id for token_id, token in added.items() if token.special)}
        description = orjson.loads(tokenizer.to_str())
        self._is_byte_level = _has_type(description["pre_tokenizer"], "ByteLevel") or _has_type(
            description["decoder"], "ByteLevel"
        )
        self._has_bytes = bool(description["model"].get("byte_fallback"))
        # Unigram models give an id, other models a name.
        self.unk_id: int | None = description["model"].get(
            "unk_id", vocabulary.get(description["model"].get("unk_token"))
        )

    @classmethod
    def open(cls, folder: Path, vocab_size: int | None = None) -> Self:
        """Load the tokenizer of a model folder; raise ModelError that names the file at fault.

        `vocab_size`: the model's, if it is known; a tokenizer that makes higher ids is refused.
        """
        file = folder / "tokenizer.json"
        description = read_object(file)
        config = read_object(folder / "tokenizer_config.json", is_optional=True)
        names = {key: named_token(folder, config, key) for key in ("bos_token", "eos_token")}
        try:
            added = read_object(folder / "added_tokens.json", is_optional=True)
            apply_config(description, config, class_of(folder, config), added)
            ids = vocabulary(description)
            original = {"post_processor": description.get("post_processor")}  # which is dropped
            description.update(truncation=None, padding=None, post_processor=None)
            special = special_contents(description, config) | {name.content for name in names.values() if name}
            written = rename_special(description, special)
            tokenizer = Tokenizer.from_str(orjson.dumps(description).decode())
        except Exception as error:  # the library raises plain Exception; a file of another shape raises anything
            raise ModelError(f"{file} is not a valid tokenizer ({error}): download or export it again") from error
        tokenizer.encode_special_tokens = True  # for special tokens that could not be renamed
        for key, name in names.items():
            if name is not None and name.content not in ids:
                raise ModelError(f"{name.file} says that {key} is {name.content!r}, which {file} does not have")
        special_ids = {ids[content] for content in special if content in ids}
        bos, eos = names["bos_token"], names["eos_token"]
        bos_id = ids[bos.content] if bos else ids.get(default_bos(folder, config))
        opened = cls(
            tokenizer,
            written,
            bos_id=bos_id,
            eos_id=ids[eos.content] if eos else configured_eos(folder, config, special_ids),
            beginning=prompt_beginning(original, config, class_of(folder, config), bos_id),
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
        """The highest id that a model gets: of a text, BOS or EOS. Padding, which models may lack, can be higher."""
        return max(self._pieces.keys() - self._special.keys() | self._ends, default=-1)

    def encode(self, text: str) -> Encoded:
        """The tokens of a text, without BOS and EOS. There may be none.

        Offsets refer to the text as given, before any normalization of the tokenizer. A token that is part of a
        character has the bytes that it stands for. White space that the tokenizer drops belongs to no token; any other
        character that it drops belongs to the token before.
        A lone surrogate, which JSON can carry and UTF-8 cannot, counts as U+FFFD.
        Raises ModelError where the tokenizer has neither a token for a character nor an unknown token, or where a
        regular expression of it aborts.
        """
        text = _SURROGATE.sub("\ufffd", text)
        encoding = encoding_of(self._tokenizer, text)
        ids: list[int] = encoding.ids
        starts, stops = to_bytes(text, encoding.offsets, lambda index: self._num_bytes(ids[index]))
        return Encoded(ids, starts, stops)

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a prompt: the ids that transformers puts before a text, and the text's tokens. Raises what
        `encode` raises."""
        return [*self._beginning, *self.encode(text).ids]

    @property
    def special_ids(self) -> Mapping[str, int]:
        """The id of each special token, by its content."""
        return {content: token_id for token_id, content in self._special.items()}

    @property
    def special_names(self) -> Mapping[str, str]:
        """How `encode_rendered` spells each special token, by its content: a string that no text contains."""
        return {content: self._tokenizer.id_to_token(token_id) for token_id, content in self._special.items()}

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of a text in which the names of special tokens stand for these tokens. Raises what `encode` does."""
        ids: list[int] = encoding_of(self._with_special, _SURROGATE.sub("\ufffd", text)).ids
        return ids

    @functools.cached_property
    def _with_special(self) -> Tokenizer:
        """The tokenizer, which takes the names of special tokens for these tokens."""
        copy = Tokenizer.from_str(self._tokenizer.to_str())
        copy.encode_special_tokens = False
        return copy

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        text: str = self._tokenizer.decode([int(i) for i in ids if int(i) not in self._special])
        return text

    def is_silent(self, token_id: int) -> bool:
        """Whether `decode` leaves a token out."""
        return token_id in self._silent

    def token_text(self, token_id: int) -> str:
        """A token in readable form: a space for `▁`, `<0xE4>` for a byte that is not a character."""
        piece = self._pieces[token_id]
        if token_id in self._added:
            return piece
        if self._is_byte_level and all(char in BYTE_ALPHABET for char in piece):
            return readable(bytes(BYTE_ALPHABET[char] for char in piece))
        if self._has_bytes and (match := _BYTE.fullmatch(piece)):
            return readable(bytes.fromhex(match[1]))
        return piece.replace(_WORD_START, " ")

    def piece(self, token_id: int) -> str:
        """A token as the vocabulary has it: `▁` for a space."""
        return self._pieces[token_id]

    def _num_bytes(self, token_id: int) -> tuple[int, bool]:
        """The number of bytes of text that a token stands for, and whether it begins with a space."""
        piece = self._pieces[token_id]
        if token_id not in self._added:
            if self._is_byte_level:
                return len(piece), piece.startswith("Ġ")
            if self._has_bytes and _BYTE.fullmatch(piece):
                return 1, False
        text = piece.removeprefix("##").replace(_WORD_START, " ")
        return len(text.encode()), text.startswith(" ")


def encoding_of(tokenizer: Tokenizer, text: str) -> Encoding:
    """A text as tokens, without special ones. Raises ModelError where the tokenizer cannot tokenize it."""
    try:
        # Unlike `encode`, this releases the interpreter's lock, so other lanes go on.
        return tokenizer.encode_batch([text], add_special_tokens=False)[0]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # an aborted expression is a panic in Rust, which is not an Exception
        raise ModelError(
            f"the model's tokenizer cannot tokenize the text ({error}): tokenizer.json is at fault"
        ) from error


def readable(content: bytes) -> str:
    """UTF-8 as text, with `<0xE4>` for bytes that are not characters."""
    text = content.decode("utf-8", "surrogateescape")
    return _SURROGATE.sub(lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)


def _has_type(part: Any, kind: str) -> bool:
    """Whether a pre-tokenizer or decoder is of the type `kind`, or a sequence with one of that type."""
    if not isinstance(part, dict):
        return False
    inner = [*(part.get("pretokenizers") or ()), *(part.get("decoders") or ())]
    return part.get("type") == kind or any(_has_type(step, kind) for step in inner)


def _byte_alphabet() -> dict[str, int]:
    """The byte of each character in byte-level pieces: printable Latin-1 stands for itself, U+0100 and on for the other
    bytes in order (`bytes_to_unicode` of GPT-2's encoder.py)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


def to_bytes(
    text: str, offsets: Sequence[tuple[int, int]], num_bytes: Callable[[int], tuple[int, bool]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops in bytes, each (T,), of tokens whose `offsets` count characters; neither decreases, and no byte
    belongs to two tokens.

    `num_bytes`: for the index of a token, how many bytes it stands for, and whether it begins with a space. It is
    called only for tokens that share characters.
    """
    if not offsets:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spans = np.array(offsets, np.int64)  # (T, 2)
    spans[:, 1] = np.maximum(spans[:, 1], spans[:, 0])
    _take_dropped(text, spans)
    at = _byte_offsets(text)
    starts, stops = at[spans[:, 0]], at[spans[:, 1]]
    # Runs of tokens that share characters: the library gives the span of the run; the sizes of the pieces divide it.
    highest = np.maximum.accumulate(spans[:, 1])
    shares = np.flatnonzero(spans[1:, 0] < highest[:-1])  # token i + 1 begins before the end of an earlier token
    index = 0
    while index < len(shares):
        first = int(shares[index])
        last = first + 1
        while index + 1 < len(shares) and shares[index + 1] == last:
            index, last = index + 1, last + 1
        index += 1
        begin, end = int(at[spans[first, 0]]), int(at[highest[last]])
        sizes = [num_bytes(token) for token in range(first, last + 1)]
        cuts = _share(end - begin, sizes, starts_with_space=text[spans[first, 0]].isspace())
        starts[first : last + 1] = begin + cuts[:-1]
        stops[first : last + 1] = begin + cuts[1:]
    return starts, stops


def _share(size: int, sizes: Sequence[tuple[int, bool]], *, starts_with_space: bool) -> NDArray[np.int64]:
    """The boundaries of T tokens that together cover `size` bytes: (T + 1,), from 0 to size."""
    wanted = np.array([num_bytes for num_bytes, _ in sizes], np.int64)
    if sizes[0][1] and not starts_with_space:
        wanted[0] -= 1  # a space that the tokenizer inserted before the text
    cuts = np.minimum(np.concatenate(([0], np.cumsum(wanted))), size)
    cuts[-1] = size
    return cuts


def _take_dropped(text: str, spans: NDArray[np.int64]) -> None:
    """Extend each token, in place, over the characters after it that belong to no token, except trailing white
    space."""
    for index in np.flatnonzero(spans[1:, 0] > spans[:-1, 1]):
        begin, end = spans[index, 1], spans[index + 1, 0]
        spans[index, 1] = begin + len(text[begin:end].rstrip())
    spans[-1, 1] += len(text[spans[-1, 1] :].rstrip())


def _byte_offsets(text: str) -> NDArray[np.int64]:
    """The byte offset of each character and of the end of the text: (characters + 1,)."""
    if text.isascii():
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))


def prompt_beginning(
    description: Mapping[str, Any], config: Mapping[str, Any], class_name: str, bos_id: int | None
) -> tuple[int, ...]:
    """The ids that transformers puts before a prompt: a BOS, or none.

    `description`: tokenizer.json, whose post-processor says it, unless a class of transformers 4.57 replaces that
    (`update_post_processor` in tokenization_llama_fast.py, and in the files of CodeLlama, Gemma and Cohere). `config`:
    tokenizer_config.json. `class_name`: the tokenizer's class, without Tokenizer and Fast.
    """
    if class_name in _ADDS_BOS:
        return (bos_id,) if bos_id is not None and config.get("add_bos_token", True) else ()
    try:
        return tuple(map(operator.index, _before(description.get("post_processor"))))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ModelError("the post_processor of tokenizer.json is damaged; download the file again") from error


def _before(processor: Any) -> list[Any]:
    """The ids that a post-processor puts before a single sequence (processors of the library tokenizers)."""
    if not isinstance(processor, dict):
        return []
    match processor.get("type"):
        case "Sequence":
            return [token_id for step in reversed(processor.get("processors") or ()) for token_id in _before(step)]
        case "TemplateProcessing":
            return _before_template(processor)
        case "BertProcessing" | "RobertaProcessing":
            return [processor["cls"][1]]
    return []


def _before_template(processor: Mapping[str, Any]) -> list[Any]:
    ids: list[Any] = []
    for part in processor.get("single") or ():
        if "SpecialToken" not in part:
            break
        ids += processor["special_tokens"][part["SpecialToken"]["id"]]["ids"]
    return ids
