"""The tokenizer of a cross-encoder: a query and a document to the ids that the model reads together.

    [CLS] query [SEP] document [SEP]        BERT; tokenizer.json holds the template
    <s> query </s> </s> document </s>       RoBERTa

A pair that is too long is cut as sentence-transformers' CrossEncoder cuts it (`longest_first`). Text is always plain
text: `[SEP]` inside a document is tokenized like any other characters (`worker.text.special_tokens`), where
CrossEncoder would take it for the end of the query.

Knows: `tokenizer.json`, `tokenizer_config.json`. Does not know: models, scores.
"""

import os
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
from tokenizers import Encoding, Tokenizer

from jobs.errors import ModelError
from worker.text.causal_tokenizer import encoding_of
from worker.text.special_tokens import class_of, rename_special, special_contents
from worker.text.tokenizer_config import apply_config
from worker.text.tokenizer_files import read_object

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the reason is given in causal_tokenizer.py

_SURROGATE = re.compile("[\ud800-\udfff]")
# Tokenizer classes of transformers 4.57 whose models get no token types unless the files say otherwise
# (`model_input_names`), by their names without Tokenizer and Fast.
_WITHOUT_TYPES = ("Camembert", "DistilBert", "GPT2", "Roberta", "XLMRoberta")
_ROOM = 10**12  # transformers writes a larger model_max_length for "no limit"


@dataclass(frozen=True, slots=True)
class PairTokens:
    """A pair as the model reads it."""

    ids: list[int]
    types: list[int]  # of each token
    is_cut: bool  # whether one of the texts lost tokens


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """The special tokens round two texts, and the type of each token."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]  # the type of each part: before, query, between, document, after

    @property
    def num_special(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


class TextPairTokenizer:
    """Immutable after `open`, so several lanes may share one."""

    def __init__(
        self, tokenizer: Tokenizer, template: PairTemplate, *, max_length: int | None, cuts_left: bool, ids: Set[int]
    ) -> None:
        """`max_length`: tokens of a pair, if the files set a limit. `cuts_left`: a text that is too long loses its
        beginning instead of its end. `ids`: the ids that a pair can have."""
        self.template = template
        self.max_length = max_length
        self.ids = frozenset(ids)
        self._tokenizer = tokenizer
        self._cuts_left = cuts_left

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
        file = folder / "tokenizer.json"
        description = read_object(file)
        config = read_object(folder / "tokenizer_config.json", is_optional=True)
        named = read_object(folder / "special_tokens_map.json", is_optional=True)
        side = config.get("truncation_side", "right")
        if side not in ("left", "right"):
            raise ModelError(f"{folder / 'tokenizer_config.json'} has truncation_side {side!r}: it is left or right")
        class_name = class_of(folder, config)
        try:
            apply_config(description, config, class_name, read_object(folder / "added_tokens.json", is_optional=True))
            description.update(truncation=None, padding=None)
            special = rename_special(description, special_contents(description, config) | _contents(named))
            tokenizer = Tokenizer.from_str(orjson.dumps(description).decode())
        except Exception as error:  # the library raises plain Exception; a file of another shape raises anything
            raise ModelError(f"{file} is not a valid tokenizer ({error}): download or export it again") from error
        tokenizer.encode_special_tokens = True  # for special tokens that could not be renamed
        names = config.get("model_input_names")
        has_types = "token_type_ids" in names if isinstance(names, list) else class_name not in _WITHOUT_TYPES
        template = _template(tokenizer, file, has_types=has_types)
        # Padding and the mask, which models may lack, can be higher.
        reachable = set(tokenizer.get_vocab(with_added_tokens=True).values()) - special.keys()
        reachable.update(template.before, template.between, template.after)
        return cls(
            tokenizer,
            template,
            max_length=_max_length(config),
            cuts_left=side == "left",
            ids=reachable,
        )

    @property
    def max_id(self) -> int:
        """The highest id that a pair can have."""
        return max(self.ids, default=-1)

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of one text, without special tokens. A lone surrogate counts as U+FFFD.

        Raises ModelError where the tokenizer cannot tokenize it.
        """
        return tuple(encoding_of(self._tokenizer, _SURROGATE.sub("\ufffd", text)).ids)

    def join(self, query: Sequence[int], document: Sequence[int], max_length: int) -> PairTokens:
        """The tokens of two texts as the model reads them, `max_length` at most."""
        template = self.template
        room = max(0, max_length - template.num_special)
        is_cut = len(query) + len(document) > room
        if is_cut:
            for_query, for_document = kept_lengths(len(query), len(document), room)
            query, document = self._cut(query, for_query), self._cut(document, for_document)
        parts = (template.before, query, template.between, document, template.after)
        return PairTokens(
            [token for part in parts for token in part],
            [kind for part, kind in zip(parts, template.types, strict=True) for _ in part],
            is_cut,
        )

    def _cut(self, ids: Sequence[int], length: int) -> Sequence[int]:
        return ids[len(ids) - length :] if self._cuts_left else ids[:length]


def kept_lengths(query: int, document: int, room: int) -> tuple[int, int]:
    """How many tokens of each text stay where both have more than `room`: the longer one is cut to the rest, but not
    below the shorter one; where that is not enough, both get half of the room, and the longer one the odd token.

    As `longest_first` of the library tokenizers 0.22 (src/utils/truncation.rs, `truncate_encodings`).
    """
    shorter, longer = sorted((query, document))
    longer = shorter if shorter > room else max(shorter, room - shorter)
    if shorter + longer > room:
        shorter = room // 2
        longer = shorter + room % 2
    return (longer, shorter) if query > document else (shorter, longer)


def _template(tokenizer: Tokenizer, file: Path, *, has_types: bool) -> PairTemplate:
    """The template of tokenizer.json, read off an encoded pair."""
    encoding: Encoding | None = None
    for token in tokenizer.get_vocab(with_added_tokens=False):  # until one is encoded as a single token
        query = tokenizer.encode(token, add_special_tokens=False)
        if len(query.ids) == 1:
            encoding = tokenizer.encode(token, token)
            break
    sequences = [] if encoding is None else encoding.sequence_ids
    if encoding is None or len(sequences) == 2 or [text for text in sequences if text is not None] != [0, 1]:
        raise ModelError(
            f"{file} does not say how a pair of texts is put together (post_processor): take the tokenizer.json that "
            "the model's author published"
        )
    first, second, ids = sequences.index(0), sequences.index(1), encoding.ids
    spans = [slice(0, first), slice(first, first + 1), slice(first + 1, second), slice(second, second + 1)]
    spans.append(slice(second + 1, len(ids)))
    types = []
    for span in spans:
        kinds = set(encoding.type_ids[span]) if has_types else {0}
        if len(kinds) > 1:
            raise ModelError(f"{file} gives special tokens beside each other different types, which is not supported")
        types.append(kinds.pop() if kinds else 0)
    before, _, between, _, after = (tuple(ids[span]) for span in spans)
    in_before, in_query, in_between, in_document, in_after = types
    return PairTemplate(before, between, after, (in_before, in_query, in_between, in_document, in_after))


def _max_length(config: dict[str, Any]) -> int | None:
    value = config.get("model_max_length")
    return int(value) if isinstance(value, int | float) and 0 < value < _ROOM else None


def _contents(named: dict[str, Any]) -> set[str]:
    """The special tokens of special_tokens_map.json."""
    tokens = [*named.values()]
    tokens += [token for value in named.values() if isinstance(value, list) for token in value]
    contents = (token.get("content") if isinstance(token, dict) else token for token in tokens)
    return {content for content in contents if isinstance(content, str)}
