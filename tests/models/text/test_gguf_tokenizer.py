"""The vocabulary of a GGUF file gives the ids that the model's own tokenizer gives, or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from jobs.errors import ModelError
from tests import small_tokenizers
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.gguf_tokenizer import tokenizer_files

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SENTENCEPIECE_TEXTS = ["hello", " hello  world", "", "x\nh字 é 😀", "the <s> el</s>", "   ", "hel el h el"]


def byte_level(*extra: tuple[str, int], pre: str = "gpt-2", **values: Any) -> dict[str, Any]:
    """Metadata with the 256 bytes, a few merges, and the tokens `extra` of the given types."""
    merges = ["h e", "l l", "he ll", "Ġ h", "1 2"]
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in merges)]
    return metadata(
        model="gpt2",
        pre=pre,
        tokens=[*tokens, *(token for token, _ in extra)],
        token_type=[NORMAL] * len(tokens) + [kind for _, kind in extra],
        merges=merges,
        **values,
    )


def sentencepiece(**values: Any) -> dict[str, Any]:
    """Metadata of the tokenizer `small_tokenizers.byte_fallback`, as SentencePiece gives it."""
    pieces = small_tokenizers.byte_fallback().get_vocab()
    tokens = sorted(pieces, key=lambda piece: pieces[piece])
    types = [BYTE if token.startswith("<0x") else NORMAL for token in tokens]
    types[:3] = [UNKNOWN, CONTROL, CONTROL]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(tokens) - 259)]
    scores[tokens.index("▁h")], scores[tokens.index("el")] = -0.25, -0.75
    return metadata(model="llama", tokens=tokens, token_type=types, scores=scores, **values)


def metadata(**values: Any) -> dict[str, Any]:
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def opened(folder: Path, values: dict[str, Any]) -> CausalTokenizer:
    for name, content in tokenizer_files(values, "file.gguf").items():
        (folder / name).write_text(json.dumps(content))
    return CausalTokenizer.open(folder)


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["It", "'", "LL", " cost", " 1234", " €", "\n\n", " now", "  ", " ..."]),
        ("smollm", ["It", "'", "LL", " cost", " ", "1", "2", "3", "4", " €", "\n\n", " now", "  ", " ..."]),
        ("qwen2", ["It", "'LL", " cost", " ", "1", "2", "3", "4", " €\n\n", " now", "  ", " ..."]),
        ("llama-bpe", ["It", "'LL", " cost", " ", "123", "4", " €\n\n", " now", "  ", " ..."]),
    ],
)
def test_texts_are_cut_by_the_rules_that_the_file_names(pre, words):
    """The expected words follow from the expressions in llama.cpp's src/llama-vocab.cpp."""
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_files(byte_level(pre=pre), "file.gguf")["tokenizer.json"]))
    text = "It'LL cost 1234 €\n\n now   ..."

    found = tokenizer.pre_tokenizer.pre_tokenize_str(text)

    assert [text[start:stop] for _, (start, stop) in found] == words


@pytest.mark.parametrize(("pre", "pieces"), [("llama-bpe", ["hello"]), ("gpt-2", ["hell", "o"])])
def test_a_word_that_is_a_token_stays_one_where_the_rules_say_so(pre, pieces, tmp_path):
    tokenizer = opened(tmp_path, byte_level(("hello", NORMAL), pre=pre))

    assert [tokenizer.token_text(token_id) for token_id in tokenizer.encode("hello").ids] == pieces


def test_qwens_texts_are_normalized_as_its_own_tokenizer_does(tmp_path):
    tokenizer = opened(tmp_path, byte_level(pre="qwen2"))

    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("é").ids


def test_tokens_that_a_user_defined_are_found_in_texts_and_control_tokens_are_not(tmp_path):
    extra = [("<tool>", USER_DEFINED), ("<|end|>", CONTROL), ("[PAD263]", UNUSED)]
    tokenizer = opened(tmp_path, byte_level(*extra, pre="llama-bpe"))

    ids = tokenizer.encode("<tool><|end|>[PAD263]").ids

    assert ids[0] == 261
    assert len(ids) == 1 + len("<|end|>[PAD263]")


@pytest.mark.parametrize(
    ("values", "bos", "eos"),
    [
        ({"pre": "llama-bpe"}, 261, None),
        ({"pre": "llama-bpe", "add_bos_token": False}, None, None),
        ({"pre": "qwen2", "eos_token_id": 261}, None, 261),
        ({"pre": "qwen2", "eos_token_id": 261, "add_bos_token": True}, 261, 261),
    ],
)
def test_a_text_begins_with_bos_where_llama_cpp_puts_it(values, bos, eos, tmp_path):
    tokenizer = opened(tmp_path, byte_level(("<|begin|>", CONTROL), bos_token_id=261, **values))

    assert (tokenizer.bos_id, tokenizer.eos_id) == (bos, eos)
    assert tokenizer.encode_prompt("ab")[:-2] == ([] if bos is None else [bos])


def test_pieces_with_scores_give_the_ids_of_the_converted_tokenizer(tmp_path):
    (tmp_path / "theirs").mkdir()
    theirs = small_tokenizers.opened(tmp_path / "theirs", small_tokenizers.byte_fallback())

    ours = opened(tmp_path, sentencepiece())

    assert [ours.encode(text).ids for text in SENTENCEPIECE_TEXTS] == [
        theirs.encode(text).ids for text in SENTENCEPIECE_TEXTS
    ]
    assert (ours.bos_id, ours.eos_id) == (1, 2)
    assert ours.decode(ours.encode("hello 字 é").ids) == "hello 字 é"


def test_the_piece_with_the_higher_score_merges_first(tmp_path):
    values = sentencepiece()
    tokens, scores = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.scores"]
    tokens += ["he"]
    values["tokenizer.ggml.token_type"].append(NORMAL)
    scores += [-0.1]

    tokenizer = opened(tmp_path, values)

    assert tokenizer.encode("hel").ids == [tokens.index(piece) for piece in ("▁", "he", "l")]


def test_a_tokenizer_without_a_space_before_the_text_puts_none(tmp_path):
    tokenizer = opened(tmp_path, sentencepiece(add_space_prefix=False))

    assert tokenizer.encode("el").ids == [tokenizer.encode("elel").ids[0]]
    assert tokenizer.decode(tokenizer.encode(" el").ids) == " el"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            byte_level(pre="tekken"),
            r"by the rules 'tekken' \(tokenizer\.ggml\.pre\); known are gpt-2, phi-2, .*",
        ),
        (byte_level(pre="default"), r"by the rules 'default'"),
        (byte_level() | metadata(pre=None), r"by the rules None"),
        (byte_level() | metadata(pre=["a"]), r"by the rules \['a'\]"),
        (byte_level() | metadata(model="bert"), r"a tokenizer of the kind 'bert', which is not supported"),
        (byte_level() | metadata(model=["gpt2"]), r"a tokenizer of the kind \['gpt2'\]"),
        (byte_level() | metadata(merges=["a"]), r"tokenizer\.ggml\.merges are not pairs"),
        (byte_level() | metadata(merges=None), r"no valid tokenizer\.ggml\.merges"),
        (byte_level() | metadata(token_type=[1]), r"no valid tokenizer\.ggml\.token_type"),
        (byte_level(add_space_prefix=True), r"puts a space before texts"),
        (byte_level(eos_token_id=1 << 31), r"no valid tokenizer\.ggml\.eos_token_id"),
        (byte_level(("h", NORMAL)), r"lists a token twice"),
        ({}, r"has no vocabulary"),
        (sentencepiece(remove_extra_whitespaces=True), r"a SentencePiece tokenizer with remove_extra_whitespaces"),
        (sentencepiece() | metadata(scores=[0.0]), r"no valid tokenizer\.ggml\.scores"),
        (sentencepiece() | metadata(unknown_token_id=-1), r"no valid tokenizer\.ggml\.unknown_token_id"),
    ],
)
def test_what_is_not_known_for_certain_is_refused_with_the_way_out(values, message):
    with pytest.raises(ModelError, match=message):
        tokenizer_files(values, "file.gguf")


def test_pieces_of_equal_scores_are_refused_unless_they_are_runs_of_spaces(tmp_path):
    values = sentencepiece()
    values["tokenizer.ggml.tokens"] += ["▁▁", "▁▁▁"]
    values["tokenizer.ggml.token_type"] += [NORMAL, NORMAL]
    values["tokenizer.ggml.scores"] += [-1e9, -1e9]
    assert len(opened(tmp_path, values).encode("  h").ids) == 2  # the space put before, and all others

    values["tokenizer.ggml.scores"][values["tokenizer.ggml.tokens"].index("el")] = -0.25
    with pytest.raises(ModelError, match=r"several tokens.*score"):
        tokenizer_files(values, "file.gguf")
