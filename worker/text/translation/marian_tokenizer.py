"""The tokenizer of a Marian model: text to ids, ids to text.

Knows: `source.spm`, `target.spm`, `vocab.json`, `target_vocab.json`. Does not know: sentences, batches.

The `.spm` files cut text into pieces; `vocab.json` gives their ids, which differ from SentencePiece's own. A piece is
looked up there as text, since a model may have a character that its `source.spm` does not cover (`还` in opus-mt-en-mg,
which only `target.spm` has). Encoding gives the ids of `transformers.MarianTokenizer` 4.57, of a source
(`tokenizer(text)`) and of a target (`tokenizer(text_target=text)`), with one intended difference: here text is always
plain text. `</s>`, `<pad>`, `<unk>` and `>>fra<<` inside a document are tokenized like any other characters; special
ids and the language label come from the options alone.

As in transformers, there is no Moses normalization before encoding (`normalize` is never called there) and no clean-up
of spaces after decoding (`clean_up_tokenization_spaces` is False): `source.spm` alone decides on white space, full
width and ligatures.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any, Self

import sentencepiece
from sentencepiece import sentencepiece_pb2

from jobs.errors import ModelError, SpecError
from worker.text.translation.piece_cutter import read_sentencepiece, read_tokenizer_file
from worker.text.translation.sentence_pieces import (
    SourceSpan,
    TargetPiece,
    UntoldTargets,
    share_of_characters,
    split_pieces,
)

_WORD_START = "▁"  # how SentencePiece writes a space
_LABEL = re.compile(r">>(.+)<<")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL_PIECES = ("<pad>", "<s>")  # besides the end and <unk>
_NUM_SHOWN = 12  # labels in an error message
_OWNER = "a Marian model"


class MarianTokenizer(UntoldTargets):
    """Immutable after `open`, so several lanes may share one."""

    def __init__(
        self,
        source: sentencepiece.SentencePieceProcessor,
        target: sentencepiece.SentencePieceProcessor,
        source_ids: Mapping[str, int],
        target_ids: Mapping[str, int],
        *,
        eos_id: int,
        unk_id: int,
        silent_ids: Collection[int],
        target_unk_id: int | None = None,  # None: as in the source
    ):
        """`source_ids` and `target_ids`: the id of each piece; `silent_ids`: target ids that decode to nothing."""
        self.eos_id = eos_id  # ends every encoded text
        self.unk_id = unk_id  # the id of every piece that the vocabulary lacks
        self.target_unk_id = unk_id if target_unk_id is None else target_unk_id
        self.languages = frozenset(match[1] for piece in source_ids if (match := _LABEL.fullmatch(piece)))
        self._source = source
        self._target = target
        self._labels = {language: source_ids[f">>{language}<<"] for language in self.languages}
        # Without special pieces, so that no text is encoded as one of them.
        special = {eos_id, unk_id, *self._labels.values()}
        special.update(source_ids[piece] for piece in _SPECIAL_PIECES if piece in source_ids)
        self._ids = {piece: piece_id for piece, piece_id in source_ids.items() if piece_id not in special}
        self._pieces = {piece_id: piece for piece, piece_id in target_ids.items() if piece_id not in silent_ids}
        self._target_ids = self._ids
        if target_ids is not source_ids:
            special = {*silent_ids, *(target_ids[piece] for piece in _SPECIAL_PIECES if piece in target_ids)}
            self._target_ids = {piece: piece_id for piece, piece_id in target_ids.items() if piece_id not in special}
        self._silent_ids = frozenset(silent_ids)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
        source = read_sentencepiece(folder / "source.spm", _OWNER)
        target = read_sentencepiece(folder / "target.spm", _OWNER)
        config = _read_object(folder / "config.json")
        file = folder / "vocab.json"
        source_ids = target_ids = _read_vocabulary(file, config, "vocab_size")
        eos_id = _special_id(file, source_ids, "</s>", config, "eos_token_id")
        unk_id = _special_id(file, source_ids, "<unk>")
        silent_ids = {eos_id, unk_id, _special_id(file, source_ids, "<pad>", config, "pad_token_id")}
        if _has_separate_vocabularies(folder):
            file = folder / "target_vocab.json"
            target_ids = _read_vocabulary(file, config, "decoder_vocab_size")
            silent_ids = {_special_id(file, target_ids, piece) for piece in ("</s>", "<unk>", "<pad>")}
        return cls(
            source,
            target,
            source_ids,
            target_ids,
            eos_id=eos_id,
            unk_id=unk_id,
            silent_ids=silent_ids,
            target_unk_id=_special_id(file, target_ids, "<unk>"),
        )

    @property
    def source_language(self) -> None:
        """None: a Marian model has no names of source languages."""

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence: the label of the target language if one is given, the pieces, EOS.

        A lone surrogate, which JSON can carry and UTF-8 cannot, counts as U+FFFD.
        """
        return self._wrap([self._id(piece) for piece in self._cut(text)], language)

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces of the source, alternately drawn by
        Zipf's law and uniformly, then EOS; with a random label if the model has several languages."""
        ranks = range(len(self._source))  # by frequency
        frequent = rng.choices(ranks, [1 / (rank + 1) for rank in ranks], k=num_pieces)
        drawn = [self._id(self._source.id_to_piece(index)) for index in frequent]
        drawn[1::2] = rng.choices([*self._ids.values()], k=num_pieces // 2)
        return self._wrap(drawn, rng.choice(sorted(self.languages)) if self.languages else None)

    def unknown_share(self, text: str) -> float:
        """The share of a sentence's characters that the vocabulary lacks."""
        if all(piece in self._ids for piece in self._cut(text)):
            return 0.0
        unknown = ((start, stop) for piece, start, stop in _piece_spans(self._source, text) if piece not in self._ids)
        return share_of_characters(text, unknown)

    def encode_target(self, text: str) -> list[int]:
        """The ids of a target sentence, as the decoder takes them: the pieces of target.spm with the ids of the
        target's vocabulary, and EOS; never a label."""
        return [*(piece.id for piece in self.cut_target(text)), self.eos_id]

    def source_spans(self, text: str, language: str | None) -> list[SourceSpan]:
        label: list[SourceSpan] = [] if language is None else [None]
        return [*label, *((start, stop) for _piece, start, stop in _piece_spans(self._source, text)), None]

    def cut_target(self, text: str) -> list[TargetPiece]:
        target_ids = self._target_ids
        return [
            TargetPiece(target_ids.get(piece, self.target_unk_id), start, stop)
            for piece, start, stop in _piece_spans(self._target, text)
        ]

    def target_piece(self, piece_id: int) -> str:
        return self._pieces.get(piece_id, f"<{piece_id}>")

    def target_pieces(self) -> Iterator[tuple[int, str]]:
        return iter(self._pieces.items())

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with the label and EOS (`split_pieces`)."""
        room = max_tokens - len(self._wrap([], language))
        if room < 1:
            raise SpecError(f"max_tokens is {max_tokens}; no piece fits between the language label and the end")
        pieces = self._cut(text)
        return [
            self._wrap([self._id(piece) for piece in pieces[part]], language) for part in split_pieces(pieces, room)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids. EOS, padding, `<unk>` and ids without a piece are dropped."""
        pieces = [self._pieces[int(i)] for i in ids if int(i) in self._pieces]
        text: str = self._target.decode_pieces(pieces)
        return text.replace(_WORD_START, " ").strip()

    def target_ids(self) -> set[int]:
        """The ids that a target text can have: the ids of target.spm's pieces, and special ids."""
        pieces = {self._target.id_to_piece(i) for i in range(len(self._target))}
        return {piece_id for piece_id, piece in self._pieces.items() if piece in pieces} | self._silent_ids

    def check_language(self, language: str | None) -> None:
        if language in self.languages or (language is None and not self.languages):
            return
        if not self.languages:
            raise SpecError(
                f"this model has a single target language, and {language!r} was asked for: leave the target language "
                "out"
            )
        if language is None:
            raise SpecError(f"this model has several target languages; choose one: {self._some_languages('')}")
        raise SpecError(f"this model has no target language {language!r}; it has {self._some_languages(language)}")

    def _id(self, piece: str) -> int:
        return self._ids.get(piece, self.unk_id)

    def _cut(self, text: str) -> list[str]:
        pieces: list[str] = self._source.encode(_SURROGATE.sub("\ufffd", text), out_type=str)
        return pieces

    def _wrap(self, ids: list[int], language: str | None) -> list[int]:
        if language is None:
            return [*ids, self.eos_id]
        if language not in self._labels:
            self.check_language(language)
        return [self._labels[language], *ids, self.eos_id]

    def _some_languages(self, wanted: str) -> str:
        close = get_close_matches(wanted.strip("<>"), self.languages, _NUM_SHOWN, cutoff=0.5)
        shown = [*close, *sorted(self.languages - set(close))][:_NUM_SHOWN]
        num_more = len(self.languages) - len(shown)
        return ", ".join(shown) + (f" and {num_more} more" if num_more else "")


def _piece_spans(processor: sentencepiece.SentencePieceProcessor, text: str) -> list[tuple[str, int, int]]:
    """The pieces of a text, each with start and stop in UTF-8 bytes."""
    serialized = processor.encode(_SURROGATE.sub("\ufffd", text), out_type="serialized_proto")
    cut = sentencepiece_pb2.SentencePieceText.FromString(serialized)
    return [(piece.piece, piece.begin, piece.end) for piece in cut.pieces]


def _read_vocabulary(file: Path, config: Mapping[str, Any], size_key: str) -> dict[str, int]:
    vocabulary = _read_object(file)
    for piece, piece_id in vocabulary.items():
        if type(piece_id) is not int or piece_id < 0:
            raise ModelError(
                f"{file} gives piece {piece!r} the id {piece_id!r}, and an id is a whole number from 0 on: download or "
                "export it again"
            )
    size = config.get(size_key) or config.get("vocab_size")
    if isinstance(size, int) and max(vocabulary.values(), default=0) >= size:
        raise ModelError(
            f"{file} has ids up to {max(vocabulary.values())}, but config.json beside it gives a vocabulary of {size}: "
            "the files belong to different models"
        )
    return {_SURROGATE.sub("\ufffd", piece): piece_id for piece, piece_id in vocabulary.items()}


def _has_separate_vocabularies(folder: Path) -> bool:
    """Whether the target has a vocabulary of its own: by tokenizer_config.json, else by target_vocab.json."""
    file = folder / "tokenizer_config.json"
    separate = _read_object(file).get("separate_vocabs") if file.is_file() else None
    return (folder / "target_vocab.json").is_file() if separate is None else bool(separate)


def _special_id(
    file: Path, vocabulary: Mapping[str, int], piece: str, config: Mapping[str, Any] | None = None, key: str = ""
) -> int:
    """The id of a special piece, by the vocabulary and config.json, which must not differ; one of them is enough.

    Published models have any: eos 0 and pad V-1 in opus-mt, eos 43311 and pad 53016 in tc-big-fr-en.
    """
    listed, configured = vocabulary.get(piece), (config or {}).get(key)
    if isinstance(configured, list) and len(configured) == 1:
        configured = configured[0]
    if listed is not None and configured is not None and listed != configured:
        raise ModelError(
            f"{file} has {piece} as {listed}, but config.json beside it says {key} = {configured}: the files belong to "
            "different models"
        )
    special_id = listed if listed is not None else configured
    if type(special_id) is not int:
        raise ModelError(f"{file} has no piece {piece}: it is not the vocabulary of a Marian model")
    return special_id


def _read_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_tokenizer_file(file, _OWNER))
    except ValueError as error:
        raise ModelError(f"{file} is not JSON ({error}): download or export it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds a JSON {type(content).__name__}, not an object")
    return content
