"""
The tokenizer of a seq2seq model without names of languages: BART and Pegasus.

    BART      <s> pieces </s>
    Pegasus   pieces </s>         sources and targets alike

Encoding gives the ids of the class in transformers 4.57, with one intended difference: text is always plain text.

    ...Fast classes    tokenizer.json
    PegasusTokenizer   spiece.model, whose ids are moved by an offset

As AutoTokenizer of transformers does, tokenizer.json is taken where both are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from jobs.errors import ModelError, SpecError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.file_names import SENTENCEPIECE_UNIGRAM
from worker.text.translation.piece_cutter import (
    SentencePieceCutter,
    TokenizerJsonCutter,
    checked_eos,
    pieces_of,
    read_sentencepiece,
    read_tokenizer_config,
)
from worker.text.translation.sentence_pieces import (
    PieceTokenizer,
    SourceSpan,
    UntoldTargets,
    draw_ids,
    spans_of,
    split_ids,
)

_TOKENIZER, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_PEGASUS_OFFSET = 103  # ids that pretraining alone uses
_PEGASUS_EOS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTokenizer(UntoldTargets, PieceTokenizer):
    """Immutable, so several lanes may share one."""

    before: tuple[int, ...] = ()  # the ids that a source and a target begin with
    source_language: ClassVar[None] = None
    languages: ClassVar[frozenset[str]] = frozenset()

    def check_language(self, language: str | None) -> None:
        """Raise SpecError for any language: the model has a single one, which has no name."""
        if language is not None:
            raise SpecError(
                f"this model has a single target language, and {language!r} was asked for: leave the target language "
                "out"
            )

    def target_prefix(self, language: str | None) -> tuple[int, ...]:
        """The ids that every target begins with."""
        return self.before

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        self.check_language(language)
        return self._wrap([piece.id for piece in self.cutter.cut(text)])

    def source_spans(self, text: str, language: str | None) -> list[SourceSpan]:
        return [*(None for _ in self.before), *spans_of(self.cutter.cut(text)), None]

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with its ends (`split_pieces`)."""
        return split_ids(self.cutter.cut(text), max_tokens, self._wrap, "the beginning and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly."""
        drawn = draw_ids(rng, self.cutter.by_frequency(), num_pieces)
        return self._wrap(drawn)

    def _wrap(self, ids: list[int]) -> list[int]:
        return [*self.before, *ids, self.eos_id]


def open_plain(folder: Path, family: str) -> PlainTokenizer:
    """Load the tokenizer of a model folder, whose `model_type` is `family`; raise ModelError that names the file at
    fault."""
    config = read_tokenizer_config(folder)
    if (folder / _TOKENIZER).is_file():
        return _open_json(folder, config, family)
    if family == "bart":
        raise ModelError(
            f"{folder / _TOKENIZER} is missing: the tokenizer of a BART model is read from it; make one with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    return _open_pegasus(folder, config)


def _open_json(folder: Path, config: Mapping[str, Any], family: str) -> PlainTokenizer:
    tokenizer = CausalTokenizer.open(folder)
    # The defaults of the classes, where no file names these tokens.
    eos_id = tokenizer.special_ids.get("</s>") if tokenizer.eos_id is None else tokenizer.eos_id
    bos_id = tokenizer.special_ids.get("<s>") if tokenizer.bos_id is None else tokenizer.bos_id
    if eos_id is None or (family == "bart" and bos_id is None):
        raise ModelError(f"{folder / _TOKENIZER} has no token </s>, or no <s>: download the tokenizer again")
    cutter = TokenizerJsonCutter(tokenizer)
    return PlainTokenizer(
        cutter=cutter,
        eos_id=checked_eos(folder, eos_id, cutter),
        before=(bos_id,) if family == "bart" and bos_id is not None else (),
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )


def _open_pegasus(folder: Path, config: Mapping[str, Any]) -> PlainTokenizer:
    processor = read_sentencepiece(folder / SENTENCEPIECE_UNIGRAM, "a Pegasus model")
    offset = int(config.get("offset", _PEGASUS_OFFSET))
    cutter = SentencePieceCutter(processor, pieces_of(processor, offset), processor.unk_id() + offset, joins=True)
    return PlainTokenizer(
        cutter=cutter,
        eos_id=checked_eos(folder, _PEGASUS_EOS, cutter),
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )
