"""Tokenizers whose other files change what tokenizer.json does: for a golden file, and to compare with transformers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from tests.small_tokenizers import byte_fallback, byte_level, metaspace, write

TEXTS = (
    "hello world",
    " hello",
    "hell wor",
    "a wor b",
    "x  wor  y",
    "wor",
    "",
    " ",
    "wor 字 helloé",
    "<tool>wor</tool>",
    "hello<tool> \n wor",
    "HELLO <TOOL> Wor",
)

Files = dict[str, dict[str, Any]]


def outermost(prefix_space: bool) -> Tokenizer:
    """Byte-level, with add_prefix_space at the place where every class of transformers changes it."""
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    return tokenizer


def in_sequence(prefix_space: bool) -> Tokenizer:
    """Byte-level, with add_prefix_space inside a sequence, where most classes do not change it."""
    tokenizer = byte_level()
    parts = [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return tokenizer


def with_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer with an added token that is not special."""
    tokenizer.add_tokens([AddedToken("wor", normalized=True)])
    return tokenizer


def _config(name: str | None, **changes: Any) -> Files:
    config = {"tokenizer_class": name, **changes} if name else changes
    return {"config": {"model_type": "gpt2"}, "tokenizer_config": config}


def _token(content: str, **flags: bool) -> dict[str, Any]:
    given = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": False}
    return {"content": content, **given, **flags}


def _space_cases() -> dict[str, tuple[Callable[[], Tokenizer], Files]]:
    cases: dict[str, tuple[Callable[[], Tokenizer], Files]] = {}

    def add(make: Callable[[bool], Tokenizer], in_file: bool, name: str | None, **changes: Any) -> None:
        title = f"{make.__name__} {in_file}, {name}, {changes.get('add_prefix_space', 'silent')}"
        cases[title] = (lambda: make(in_file), _config(name, **changes))

    for changes in ({}, {"add_prefix_space": True}, {"add_prefix_space": False}):
        for name in (None, "PreTrainedTokenizerFast", "GPT2Tokenizer", "BloomTokenizerFast"):
            add(outermost, True, name, **changes)
            add(outermost, False, name, **changes)
        for name in ("PreTrainedTokenizerFast", "BloomTokenizerFast", "CohereTokenizerFast"):
            add(in_sequence, False, name, **changes)
    add(in_sequence, True, "PreTrainedTokenizerFast", add_prefix_space=False)
    for in_file in (True, False):
        add(outermost, in_file, "PreTrainedTokenizerFast", add_prefix_space=None)
        add(outermost, in_file, "LlamaTokenizerFast")  # without the SentencePiece model that this class converts
    for space in (True, False, None):
        for legacy in (True, False, None):
            title = f"llama {space}, legacy {legacy}"
            cases[title] = (byte_fallback, _config("LlamaTokenizer", add_prefix_space=space, legacy=legacy))
    cases["nothing but tokenizer.json"] = (lambda: outermost(True), {"config": {"model_type": "gpt2"}})
    cases["metaspace"] = (metaspace, _config("PreTrainedTokenizerFast", add_prefix_space=False))
    return cases


def _token_cases() -> dict[str, tuple[Callable[[], Tokenizer], Files]]:
    def declared(**tokens: dict[str, Any]) -> Files:
        numbered = {name.removeprefix("n"): token for name, token in tokens.items()}
        return _config("PreTrainedTokenizerFast", added_tokens_decoder=numbered)

    special = {"pad_token": "<tool>"}
    legacy = {"config": {"model_type": "gpt2"}, "tokenizer_config": {"tokenizer_class": "GPT2Tokenizer"}}
    return {
        "a plain one, new": (byte_level, declared(n400=_token("<tool>"))),
        "two new ones, the later first": (byte_level, declared(n401=_token("<tool>"), n400=_token("</tool>"))),
        "one that is a piece": (byte_level, declared(n400=_token("hello"))),
        "one that strips": (byte_level, declared(n400=_token("<tool>", lstrip=True, rstrip=True))),
        "a single word": (byte_level, declared(n400=_token("wor", single_word=True, normalized=True))),
        "a special one before a plain one": (
            byte_level,
            declared(n400=_token("<mark>", special=True), n401=_token("<tool>")),
        ),
        "other flags than tokenizer.json": (
            lambda: with_tokens(byte_level()),
            declared(n271=_token("wor", lstrip=True, rstrip=True)),
        ),
        "the same as tokenizer.json": (
            lambda: with_tokens(byte_level()),
            declared(n271=_token("wor", normalized=True)),
        ),
        "made special by its name": (
            byte_level,
            _config("PreTrainedTokenizerFast", added_tokens_decoder={"400": _token("<tool>")}, **special),
        ),
        "of a unigram model": (metaspace, declared(n90=_token("<tool>"), n91=_token("wor"))),
        "of a model with bytes": (byte_fallback, declared(n300=_token("<tool>", normalized=True), n301=_token("wor"))),
        "an old file": (byte_level, {**legacy, "added_tokens": {"<tool>": 271, "</tool>": 272}}),
        "an old file beside a new one": (
            byte_level,
            {**declared(n400=_token("<tool>")), "added_tokens": {"</tool>": 271}},
        ),
    }


CASES = _space_cases() | _token_cases()


def write_case(folder: Path, name: str) -> Path:
    """Write the folder of a case, with a tokenizer.model if transformers reads one."""
    make, files = CASES[name]
    write(folder, make(), **files)
    if make is byte_fallback:
        (folder / "tokenizer.model").write_bytes(_sentencepiece(make()))
    return folder


def _sentencepiece(tokenizer: Tokenizer) -> bytes:
    """The pieces of a tokenizer with byte fallback as a SentencePiece model; pieces of more merges come later."""
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.remove_extra_whitespaces = False
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    for piece, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        kind = {"<unk>": kinds.UNKNOWN, "<s>": kinds.CONTROL, "</s>": kinds.CONTROL}.get(piece, kinds.NORMAL)
        kind = kinds.BYTE if piece.startswith("<0x") else kind
        model.pieces.add(piece=piece, score=-float(number), type=kind)
    content: bytes = model.SerializeToString()
    return content
