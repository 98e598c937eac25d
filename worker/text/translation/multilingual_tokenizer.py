"""
The tokenizer of a model of many languages: M2M100, NLLB-200, mBART-50, mBART-25.

    source   [source language] pieces </s>    or, in mBART-25 and NLLB's legacy behaviour, pieces </s> [source language]
    target   [target language] pieces </s>    the decoder's start token comes before; the language is given
             pieces </s>                      mBART-25, where the language is the decoder's start token

Encoding gives the ids of the class in transformers 4.57, with one intended difference: text is always plain text.
`</s>` and `__fr__` inside a document are tokenized like any other characters.

    M2M100Tokenizer     sentencepiece.bpe.model cuts, vocab.json has the ids; languages follow, in a fixed order
    NllbTokenizerFast   tokenizer.json
    NllbTokenizer       sentencepiece.bpe.model, whose ids are moved by 1 for the special tokens of fairseq
    MBart50Tokenizer    the same; ids of languages follow, in a fixed order
    MBartTokenizer      the same with fewer languages

As AutoTokenizer of transformers does, tokenizer.json is taken where both are there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import orjson

from jobs.errors import ModelError, SpecError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.file_names import SENTENCEPIECE_BPE
from worker.text.special_tokens import class_of
from worker.text.tokenizer_files import read_object
from worker.text.translation.language_codes import find_language, some_languages
from worker.text.translation.piece_cutter import (
    SentencePieceCutter,
    TokenizerJsonCutter,
    pieces_of,
    read_sentencepiece,
    read_tokenizer_config,
    read_tokenizer_file,
)
from worker.text.translation.sentence_pieces import (
    PieceTokenizer,
    SourceSpan,
    TargetBeginning,
    draw_ids,
    spans_of,
    split_ids,
)

_OWNER = "an M2M100, NLLB or mBART-50 model"
_VOCABULARY, _TOKENIZER, _CONFIG = "vocab.json", "tokenizer.json", "tokenizer_config.json"
FAIRSEQ = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
FAIRSEQ_OFFSET = 1  # from a piece's id in the SentencePiece model, which has no <pad>, to the model's id
# The tokens of languages, by the tokenizer's class.
_LANGUAGE = {
    "Nllb": re.compile("[a-z]{3}_[A-Z][a-z]{3}"),
    "MBart50": re.compile("[a-z]{2}_[A-Z]{2}"),
    "MBart": re.compile("[a-z]{2}_[A-Z]{2}"),
}
# The order of their ids: FAIRSEQ_LANGUAGE_CODES in tokenization_mbart.py and tokenization_mbart50.py.
MBART_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
MBART50_LANGUAGES = (
    f"{MBART_LANGUAGES} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN "
    "pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
# The order of their ids: FAIRSEQ_LANGUAGE_CODES in tokenization_m2m_100.py, by `language_codes`.
M2M100_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
_ORDERED = {"MBart": MBART_LANGUAGES, "MBart50": MBART50_LANGUAGES}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilingualTokenizer(PieceTokenizer):
    """Immutable, so several lanes may share one."""

    language_ids: Mapping[str, int]  # by the model's own codes
    source_language: str | None = None  # one of the model's codes; None: not chosen yet
    given_language: str | None = None  # the target language that the model's own settings force
    language_is_last: bool = False  # of a source: behind its end
    language_is_start: bool = False  # of a target: the decoder's start token

    @property
    def languages(self) -> frozenset[str]:
        """The target languages, which are the source languages too."""
        return frozenset(self.language_ids)

    def for_source(self, language: str) -> Self:
        return replace(self, source_language=find_language(language, self.language_ids, "source"))

    def check_language(self, language: str | None) -> None:
        """Raise SpecError unless `language` is a target language of the model; None means the one in the model's
        settings."""
        self._target(language)

    def beginning(self, language: str | None) -> TargetBeginning:
        """The target language, fed first or forced as the first token."""
        language_id = self.language_ids[self._target(language)]
        if self.language_is_start:
            return TargetBeginning(start_id=language_id)
        return TargetBeginning(forced_id=language_id)

    def target_prefix(self, language: str | None) -> tuple[int, ...]:
        """The language, where it is part of the target."""
        forced = self.beginning(language).forced_id
        return () if forced is None else (forced,)

    def encode(self, text: str, language: str | None) -> list[int]:
        """The ids of a sentence."""
        return self._wrap([piece.id for piece in self.cutter.cut(text)])

    def source_spans(self, text: str, language: str | None) -> list[SourceSpan]:
        before, behind = self._ends()
        return [*(None for _ in before), *spans_of(self.cutter.cut(text)), *(None for _ in behind)]

    def shorten(self, ids: Sequence[int], max_tokens: int) -> list[int]:
        """The first ids of an encoded sentence, with its language and end."""
        _before, behind = self._ends()
        return [*ids[: max_tokens - len(behind)], *behind] if len(ids) > max_tokens else list(ids)

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        """`encode`, split into lists of at most `max_tokens` ids, each with language and end (`split_pieces`)."""
        return split_ids(self.cutter.cut(text), max_tokens, self._wrap, "the language and the end")

    def draw(self, rng: Random, num_pieces: int) -> list[int]:
        """The ids of a made-up sentence, for measuring a model: `num_pieces` pieces, alternately drawn by Zipf's law
        and uniformly, in a random language."""
        drawn = draw_ids(rng, self.cutter.by_frequency(), num_pieces)
        return replace(self, source_language=rng.choice(sorted(self.language_ids)))._wrap(drawn)

    def _target(self, language: str | None) -> str:
        if language is not None:
            return find_language(language, self.language_ids, "target")
        if self.given_language is None:
            raise SpecError(f"this model has several target languages; choose one: {some_languages(self.language_ids)}")
        return self.given_language

    def _wrap(self, ids: list[int]) -> list[int]:
        before, behind = self._ends()
        return [*before, *ids, *behind]

    def _ends(self) -> tuple[list[int], list[int]]:
        """The ids before the pieces of a source, and the ids after them."""
        if self.source_language is None:
            raise SpecError(f"this model has several source languages; choose one: {some_languages(self.language_ids)}")
        language = self.language_ids[self.source_language]
        return ([], [self.eos_id, language]) if self.language_is_last else ([language], [self.eos_id])


def open_multilingual(folder: Path) -> MultilingualTokenizer:
    """Load the tokenizer of a model folder; raise ModelError that names the file at fault."""
    config = read_tokenizer_config(folder)
    named = class_of(folder, config)
    if named not in ("M2M100", *_LANGUAGE) and _model_type(folder) == "mbart":
        named = "MBart"
    if named not in ("M2M100", *_LANGUAGE):
        named = "M2M100" if (folder / _VOCABULARY).is_file() else "Nllb"
    opened = _open_m2m100(folder, config) if named == "M2M100" else _open_fairseq(folder, config, named)
    _check_sizes(folder, opened)
    return opened


def _open_m2m100(folder: Path, config: Mapping[str, Any]) -> MultilingualTokenizer:
    vocabulary = _read_vocabulary(folder / _VOCABULARY)
    processor = read_sentencepiece(folder / SENTENCEPIECE_BPE, _OWNER)
    order = config.get("language_codes", "m2m100")
    if order not in M2M100_LANGUAGES:
        raise ModelError(f"{folder / _CONFIG} says language_codes = {order!r}; m2m100 and wmt21 are known")
    languages = M2M100_LANGUAGES[order].split()
    special = {name: _special_id(folder / _VOCABULARY, vocabulary, name) for name in ("</s>", "<unk>", "<pad>", "<s>")}
    _check_padding(folder, special["<pad>"])
    pieces = {piece: piece_id for piece, piece_id in vocabulary.items() if piece not in special}
    return MultilingualTokenizer(
        cutter=SentencePieceCutter(processor, pieces, special["<unk>"], joins=True),
        language_ids={code: len(vocabulary) + index for index, code in enumerate(languages)},
        eos_id=special["</s>"],
        given_language=_given_language(
            folder, {len(vocabulary) + at: code for at, code in enumerate(languages)}, "forced_bos_token_id"
        ),
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )


def _open_fairseq(folder: Path, config: Mapping[str, Any], named: str) -> MultilingualTokenizer:
    cutter: TokenizerJsonCutter | SentencePieceCutter
    if (folder / _TOKENIZER).is_file():
        tokenizer = CausalTokenizer.open(folder)
        cutter, added = TokenizerJsonCutter(tokenizer), tokenizer.special_ids
    else:
        processor = read_sentencepiece(folder / SENTENCEPIECE_BPE, _OWNER)
        pieces = pieces_of(processor, FAIRSEQ_OFFSET)
        cutter, added = (
            SentencePieceCutter(processor, pieces, FAIRSEQ["<unk>"], joins=named == "MBart50"),
            _added_ids(folder, config),
        )
        if named in _ORDERED:  # their ids do not depend on the other settings
            first = len(processor) + FAIRSEQ_OFFSET
            added = FAIRSEQ | {code: first + index for index, code in enumerate(_ORDERED[named].split())}
    languages = {name: token_id for name, token_id in added.items() if _LANGUAGE[named].fullmatch(name)}
    if not languages or "</s>" not in added:
        raise ModelError(
            f"{folder} does not say which ids languages have: {_TOKENIZER}, or added_tokens_decoder in {_CONFIG}, is "
            "needed; download the tokenizer again"
        )
    _check_padding(folder, added.get("<pad>", FAIRSEQ["<pad>"]))
    is_start = named == "MBart"
    codes = {token_id: name for name, token_id in languages.items()}
    return MultilingualTokenizer(
        cutter=cutter,
        language_ids=languages,
        eos_id=added["</s>"],
        given_language=_given_language(folder, codes, "decoder_start_token_id" if is_start else "forced_bos_token_id"),
        language_is_last=is_start or bool(config.get("legacy_behaviour", False)),
        language_is_start=is_start,
        cleans_spaces=bool(config.get("clean_up_tokenization_spaces", False)),
    )


def _model_type(folder: Path) -> Any:
    return read_object(folder / "config.json", is_optional=True).get("model_type")


def _added_ids(folder: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """The ids of special tokens that the files beside a SentencePiece model give."""
    listed = config.get("added_tokens_decoder")
    if isinstance(listed, dict):
        return {str(token.get("content")): int(number) for number, token in listed.items() if isinstance(token, dict)}
    written = read_object(folder / "added_tokens.json", is_optional=True)
    return FAIRSEQ | {name: number for name, number in written.items() if type(number) is int}


def _given_language(folder: Path, languages: Mapping[int, str], setting: str) -> str | None:
    """The language that the setting `setting` of the model forces in every target."""
    for name in ("generation_config.json", "config.json"):
        settings = read_object(folder / name, is_optional=True)
        if settings:
            return languages.get(settings.get(setting, -1))
    return None


def _check_sizes(folder: Path, tokenizer: MultilingualTokenizer) -> None:
    """Raise ModelError if the tokenizer's languages or its EOS do not match the model's."""
    config = read_object(folder / "config.json", is_optional=True)
    size, eos_id = config.get("vocab_size"), config.get("eos_token_id")
    highest = max(tokenizer.language_ids.values())
    if isinstance(size, int) and highest >= size:
        raise ModelError(
            f"the tokenizer in {folder} has languages with ids up to {highest:,}, but config.json beside it gives a "
            f"vocabulary of {size:,}: the files belong to different models"
        )
    if isinstance(eos_id, int) and eos_id != tokenizer.eos_id:
        raise ModelError(
            f"the tokenizer in {folder} has </s> as {tokenizer.eos_id}, but config.json beside it says eos_token_id = "
            f"{eos_id}: the files belong to different models"
        )


def _check_padding(folder: Path, pad_id: int) -> None:
    """Raise ModelError where the model's padding is another token, which M2M100 and NLLB would give no position."""
    configured = read_object(folder / "config.json", is_optional=True).get("pad_token_id", pad_id)
    if configured != pad_id and _model_type(folder) == "m2m_100":
        raise ModelError(
            f"the tokenizer in {folder} has <pad> as {pad_id}, but config.json beside it says pad_token_id = "
            f"{configured}: the files belong to different models"
        )


def _read_vocabulary(file: Path) -> dict[str, int]:
    try:
        content = orjson.loads(read_tokenizer_file(file, _OWNER))
    except orjson.JSONDecodeError as error:
        raise ModelError(f"{file} is not JSON ({error}): download or export it again") from error
    if not isinstance(content, dict) or any(type(token_id) is not int or token_id < 0 for token_id in content.values()):
        raise ModelError(f"{file} is not a table of pieces and ids: download or export it again")
    return content


def _special_id(file: Path, vocabulary: Mapping[str, int], piece: str) -> int:
    if piece not in vocabulary:
        raise ModelError(f"{file} has no piece {piece}: it is not the vocabulary of an M2M100 model")
    return vocabulary[piece]
