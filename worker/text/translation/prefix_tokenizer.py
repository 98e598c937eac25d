"""
The tokenizer of T5 and its kin, which are told in words or by a piece before the text what to do with it.

    source   prefix pieces </s>      <2de> in MADLAD-400, `translate English to German: ` in T5, nothing in others
    target   pieces </s>             the decoder's start token comes before

Prefix and text are cut together, as transformers' users do it. Encoding gives the ids of the class in transformers
4.57, with one intended difference: text is always plain text.

    T5TokenizerFast   tokenizer.json
    T5Tokenizer       spiece.model, whose ids are the model's

As AutoTokenizer of transformers does, tokenizer.json is taken where both are there.

    prefixes          pieces such as <2de> (MADLAD-400), else task_specific_params of config.json (T5):
                      {"translation_en_to_de": {"prefix": "translate English to German: "}}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Self

from jobs.errors import ModelError, SpecError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.file_names import SENTENCEPIECE_UNIGRAM
from worker.text.tokenizer_files import read_object
from worker.text.translation.language_codes import find_language, some_languages
from worker.text.translation.piece_cutter import (
    CutPiece,
    PieceCutter,
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

_TOKENIZER = "tokenizer.json"
_LABEL = re.compile(r"▁?<2([A-Za-z]{2,}(?:[_-][A-Za-z]+)*)>")
_TASK = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
_END = "</s>"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTokenizer(UntoldTargets, PieceTokenizer):
    """Immutable, so several lanes may share one."""

    prefixes: Mapping[str, str] = field(default_factory=dict)  # target language -> prefix, with its trailing space
    sources: frozenset[str] = frozenset()  # the languages that the prefixes translate from; none: any
    needs_language: bool = False  # without a prefix a text has no meaning for the model
    text_language: str | None = None  # the language of the texts; None: not given
    source_language: ClassVar[None] = None  # a model does not name it

    @property
    def languages(self) -> frozenset[str]:
        """The target languages that there is a prefix for."""
        return frozenset(self.prefixes)

    def for_source(self, language: str) -> Self:
        """The tokenizer for texts in a language. Whether a prefix translates from it shows with the target language."""
        return replace(self, text_language=language)

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless there is a prefix for this target language; None: texts get no prefix."""
        self._prefix(language)

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        before, pieces = self._cut(text, language)
        return [*before, *(piece.id for piece in pieces), self.eos_id]

    def source_spans(self, text: str, language: str | None) -> list[SourceSpan]:
        before, pieces = self._cut(text, language)
        return [*(None for _ in before), *spans_of(pieces, -len(self._prefix(language).encode())), None]

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with the prefix and the end."""
        before, pieces = self._cut(text, language)
        return split_ids(pieces, max_tokens, lambda ids: [*before, *ids, self.eos_id], "the prefix and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly, after a random prefix."""
        before = self._cut("", rng.choice(sorted(self.prefixes)))[0] if self.prefixes else []
        return [*before, *draw_ids(rng, self.cutter.by_frequency(), num_pieces), self.eos_id]

    def _cut(self, text: str, language: str | None) -> tuple[list[int], list[CutPiece]]:
        """The ids of the prefix, and the pieces of the text. A piece that begins in the space between is the text's."""
        prefix = self._prefix(language)
        pieces = self.cutter.cut(prefix + text)
        end = len(prefix.rstrip().encode())
        number = next((index for index, piece in enumerate(pieces) if piece.stop > end), len(pieces))
        return [piece.id for piece in pieces[:number]], pieces[number:]

    def _prefix(self, language: str | None) -> str:
        if language is not None and self.prefixes:
            if self.sources and self.text_language is not None:
                find_language(self.text_language, self.sources, "source")
            return self.prefixes[find_language(language, self.prefixes, "target")]
        if language is not None:
            raise SpecError(
                f"this model names no target languages, and {language!r} was asked for: leave the target language out; "
                "if the model was trained with words before the text, put them into the documents"
            )
        if self.needs_language:
            raise SpecError(f"this model has several target languages; choose one: {some_languages(self.prefixes)}")
        return ""


def open_prefixed(folder: Path) -> PrefixTokenizer:
    """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
    config = read_tokenizer_config(folder)
    is_json = (folder / _TOKENIZER).is_file()
    cutter, eos_id = _open_json(folder) if is_json else _open_sentencepiece(folder, config)
    cleans = bool(config.get("clean_up_tokenization_spaces", False))
    eos_id = checked_eos(folder, eos_id, cutter)
    if labels := _labels(cutter):
        return PrefixTokenizer(cutter=cutter, eos_id=eos_id, prefixes=labels, needs_language=True, cleans_spaces=cleans)
    tasks = _tasks(read_object(folder / "config.json", is_optional=True))
    return PrefixTokenizer(
        cutter=cutter,
        eos_id=eos_id,
        prefixes={target: prefix for (_source, target), prefix in tasks.items()},
        sources=frozenset(source for source, _target in tasks),
        cleans_spaces=cleans,
    )


def _open_json(folder: Path) -> tuple[PieceCutter, int]:
    tokenizer = CausalTokenizer.open(folder)
    eos_id = tokenizer.special_ids.get(_END) if tokenizer.eos_id is None else tokenizer.eos_id
    if eos_id is None:
        raise ModelError(f"{folder / _TOKENIZER} has no token {_END}: download the tokenizer again")
    return TokenizerJsonCutter(tokenizer), eos_id


def _open_sentencepiece(folder: Path, config: Mapping[str, Any]) -> tuple[PieceCutter, int]:
    """Raises ModelError if T5Tokenizer with `legacy` = false, which puts ▁ before a text, would cut differently: if the
    SentencePiece model does not treat ▁ as a space, as models normalized by `nmt_nfkc` do."""
    processor = read_sentencepiece(folder / SENTENCEPIECE_UNIGRAM, "a T5 model")
    if config.get("legacy") is False and processor.normalize("a▁ b") != processor.normalize("a b"):
        raise ModelError(
            f"tokenizer_config.json beside {folder / SENTENCEPIECE_UNIGRAM} says legacy = false, with which spaces "
            "before a text are cut otherwise; make a tokenizer.json with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    return SentencePieceCutter(processor, pieces_of(processor), processor.unk_id(), joins=True), processor.eos_id()


def _labels(cutter: PieceCutter) -> dict[str, str]:
    """The prefix of each language that a piece of the vocabulary names."""
    labels = (_LABEL.fullmatch(cutter.piece(piece_id)) for piece_id in cutter.by_frequency())
    return {match[1]: f"<2{match[1]}> " for match in labels if match}


def _tasks(config: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The prefix of each pair of languages that config.json names."""
    tasks = config.get("task_specific_params") or {}
    prefixes = {}
    for name, settings in tasks.items() if isinstance(tasks, dict) else ():
        pair, prefix = _TASK.fullmatch(str(name)), settings.get("prefix") if isinstance(settings, dict) else None
        if pair and isinstance(prefix, str) and prefix:
            prefixes[pair[1], pair[2]] = prefix
    return prefixes
