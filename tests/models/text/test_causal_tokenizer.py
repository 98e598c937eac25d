"""Plain text in, ids and byte offsets out, for each kind of tokenizer that causal models come with."""

import contextlib
import itertools
import json
import re
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import Unigram

from jobs.errors import ModelError
from tests.places import GOLDEN
from tests.small_tokenizers import KINDS, byte_fallback, byte_level, metaspace, opened, word_piece, write
from tests.tokenizer_configs import CASES, TEXTS, write_case
from worker.text.causal_tokenizer import CausalTokenizer

# Recorded from transformers by tests/golden/make_tokenizer_config_golden.py.
RECORDED = json.loads((GOLDEN / "tokenizer_config.json").read_text(encoding="utf-8"))

# Letters of the vocabularies, letters of each width in UTF-8, combining marks, white space, a control character.
TEXT = st.text(
    st.sampled_from("helo wrd字龍é😀🇫🇷\u0301\u0308ﬁ\u00a0\u3000\n\t\x07<|>/s[]▁Ġ") | st.characters(), max_size=30
)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp(kind), KINDS[kind]())


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> CausalTokenizer:
    return CausalTokenizer.open(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Tokenizer:
    """The tokenizers library's own tokenizer for the same file."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def level(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    return opened(tmp_path_factory.mktemp("level"), byte_level())


def pieces(tokenizer: CausalTokenizer, text: str) -> list[tuple[str, bytes]]:
    """Each token as readable text, with the bytes of the text that it covers."""
    encoded = tokenizer.encode(text)
    content = text.encode("utf-8", "surrogatepass")
    return [
        (tokenizer.token_text(token_id), content[start:stop])
        for token_id, start, stop in zip(encoded.ids, encoded.starts, encoded.stops, strict=True)
    ]


@given(text=TEXT.filter(lambda text: "<" not in text and "[" not in text and not re.search("[\ud800-\udfff]", text)))
def test_ids_equal_those_of_the_library(tokenizer: CausalTokenizer, reference: Tokenizer, text: str) -> None:
    """Treating special tokens as plain text changes no other id."""
    assert tokenizer.encode(text).ids == reference.encode(text, add_special_tokens=False).ids


@given(text=TEXT)
@example(text="")
@example(text="e\u0301\u0301字")
@example(text="\ud800a\udfff")
def test_offsets_rise_and_skip_only_white_space(tokenizer: CausalTokenizer, text: str) -> None:
    """Each byte belongs to at most one token; bytes without a token, before the first or in between, are white space
    or, before the first, characters that the tokenizer drops."""
    encoded = tokenizer.encode(text)
    content = text.encode("utf-8", "surrogatepass")

    bounds = [0, *itertools.chain.from_iterable(zip(encoded.starts, encoded.stops, strict=True)), len(content)]
    assert len(encoded.ids) == len(encoded.starts) == len(encoded.stops)
    assert bounds == sorted(bounds)
    gaps = [content[stop:start].decode() for stop, start in zip(bounds[2::2], bounds[3::2], strict=True)]
    if encoded.ids:
        assert not "".join(gaps).strip()


@given(text=TEXT)
def test_the_tokens_of_a_byte_level_model_tile_the_text(level: CausalTokenizer, text: str) -> None:
    encoded = level.encode(text)
    content = text.encode("utf-8", "surrogatepass")

    assert [0, *encoded.stops] == [*encoded.starts, len(content)]


def test_a_character_cut_into_byte_tokens_gives_each_token_one_byte(tmp_path: Path) -> None:
    fallback = opened(tmp_path / "fallback", byte_fallback())

    assert pieces(opened(tmp_path / "level", byte_level()), "o龍") == [
        ("o", b"o"),
        ("<0xE9>", b"\xe9"),
        ("<0xBE>", b"\xbe"),
        ("<0x8D>", b"\x8d"),
    ]
    assert pieces(fallback, "龍字") == [
        (" ", b""),  # added by the tokenizer: no text
        ("<0xE9>", b"\xe9"),
        ("<0xBE>", b"\xbe"),
        ("<0x8D>", b"\x8d"),
        ("字", "字".encode()),
    ]
    assert pieces(fallback, "hel") == [(" h", b"h"), ("el", b"el")]


def test_offsets_refer_to_the_text_before_normalization(tmp_path: Path) -> None:
    assert pieces(opened(tmp_path / "bert", word_piece()), "  HELLO  CAFÉ cafe\u0301\x07") == [
        ("hello", b"HELLO"),
        ("cafe", "CAFÉ".encode()),
        ("cafe", "cafe\u0301\x07".encode()),
    ]
    assert pieces(opened(tmp_path / "nfkc", metaspace()), "ｈｅx") == [
        (" ", b""),
        ("he", "ｈｅ".encode()),
        ("x", b"x"),
    ]
    assert ("é", "e\u0301".encode()) in pieces(opened(tmp_path / "nfc", byte_level()), "caf e\u0301")


@pytest.mark.parametrize("text", ["<|endoftext|>", "a<|im_start|>b", "</s>", "x </s> y", "<s>", "[SEP]", "a [SEP] b"])
def test_special_tokens_in_a_text_are_plain_text(tokenizer: CausalTokenizer, kind: str, text: str) -> None:
    special = {
        "byte-level": {"<|endoftext|>", "<|im_start|>"},
        "metaspace": {"<s>", "</s>"},
        "byte-fallback": {"<s>", "</s>"},
        "word-piece": {"[SEP]"},
    }[kind]

    assert not special & {token for token, _ in pieces(tokenizer, text)}


def test_a_special_token_is_plain_text_even_if_it_is_in_the_vocabulary_as_a_word(tmp_path: Path) -> None:
    """With `ignore_merges`, as in Llama 3, a word that is in the vocabulary becomes one token."""
    folder = write(tmp_path, byte_level(ignore_merges=True))
    description = json.loads((folder / "tokenizer.json").read_text())
    description["model"]["vocab"]["end"] = len(description["model"]["vocab"])
    description["added_tokens"].append(
        {**description["added_tokens"][0], "id": description["model"]["vocab"]["end"], "content": "end"}
    )
    (folder / "tokenizer.json").write_text(json.dumps(description))

    assert len(CausalTokenizer.open(folder).encode("end").ids) > 1


def test_a_special_token_that_is_ordinary_text_stays_usable(tmp_path: Path) -> None:
    """`!` is the padding of some models, but a text may contain it."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["!", "hello"])

    assert [text for text, _ in pieces(opened(tmp_path, tokenizer), "hello!")] == ["hello", "!"]


def test_added_tokens_that_are_not_special_are_recognized(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens(["<tool>"])

    assert ("<tool>", b"<tool>") in pieces(opened(tmp_path, tokenizer), "a <tool>é")


def test_no_token_is_added_and_nothing_is_truncated_or_padded(tmp_path: Path) -> None:
    """Whatever the settings in the file."""
    tokenizer = metaspace()
    plain = opened(tmp_path / "plain", tokenizer).encode("hello world").ids
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=40)

    assert opened(tmp_path / "set", tokenizer).encode("hello world").ids == plain
    assert len(plain) > 3


def test_decoding_gives_back_the_text(tokenizer: CausalTokenizer, kind: str) -> None:
    text = "hello world"
    special = tokenizer.max_id + 1 if kind == "byte-level" else 1

    assert tokenizer.decode([special, *tokenizer.encode(text).ids]) == text


def test_a_lone_surrogate_is_encoded_as_the_replacement_character(tokenizer: CausalTokenizer) -> None:
    assert tokenizer.encode("he\ud83dl").ids == tokenizer.encode("he\ufffdl").ids


@pytest.mark.parametrize(
    ("files", "bos", "eos"),
    [
        ({}, None, None),
        ({"tokenizer_config": {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}}}, 1, 2),
        # transformers: special_tokens_map.json overrides an old tokenizer_config.json; beside a new one it is ignored.
        ({"tokenizer_config": {"bos_token": "<s>"}, "special_tokens_map": {"bos_token": "</s>"}}, 2, None),
        (
            {
                "tokenizer_config": {"bos_token": "<s>", "added_tokens_decoder": {}},
                "special_tokens_map": {"bos_token": "</s>"},
            },
            1,
            None,
        ),
        # transformers ignores a BOS that only config.json names: it takes the BOS of the tokenizer's files or class.
        ({"config": {"bos_token_id": 1, "eos_token_id": 2}}, None, 2),
        ({"config": {"bos_token_id": 2, "model_type": "llama"}}, 1, None),
        ({"config": {"model_type": "llama"}, "tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"}}, None, None),
        ({"tokenizer_config": {"tokenizer_class": "LlamaTokenizerFast"}}, 1, None),
        ({"tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "bos_token": None}}, None, None),
        ({"config": {"tokenizer_class": "GPT2Tokenizer"}}, None, None),  # <|endoftext|> is not in this vocabulary
        # The model's files give the EOS if the tokenizer's files do not mention one, but not if those set it to null.
        ({"config": {"eos_token_id": 2}, "tokenizer_config": {"eos_token": None}}, None, None),
        ({"config": {"eos_token_id": 1}, "generation_config": {"eos_token_id": [2, 1]}}, None, 2),
        # A configuration class writes its default ids even if they do not fit the vocabulary.
        ({"config": {"bos_token_id": 5, "eos_token_id": 99999}}, None, None),
    ],
)
def test_bos_and_eos_are_read_from_the_files(
    tmp_path: Path, files: dict[str, Any], bos: int | None, eos: int | None
) -> None:
    tokenizer = opened(tmp_path, metaspace(), **files)

    assert (tokenizer.bos_id, tokenizer.eos_id) == (bos, eos)


def test_the_vocabulary_ends_after_its_highest_id(tmp_path: Path) -> None:
    """`<|im_start|>` and padding count as part of the vocabulary, although no text is encoded to them."""
    plain = byte_level()
    size = plain.get_vocab_size()
    plain.add_special_tokens(["<pad>"])
    tokenizer = opened(tmp_path, plain, tokenizer_config={"eos_token": "<|endoftext|>"})

    assert (tokenizer.vocab_size, tokenizer.max_id) == (size + 1, size - 2)
    assert tokenizer.token_text(size) == "<pad>"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", b"{", "not JSON"),
        ("tokenizer.json", b"\xff\xfe", "not JSON"),
        ("tokenizer.json", b"[]", "not an object"),
        ("tokenizer.json", b"{}", "is not a valid tokenizer"),
        ("tokenizer.json", b'{"model": {"type": "Magic", "vocab": {}}}', "is not a valid tokenizer"),
        (
            "tokenizer.json",
            b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}',
            "is not a valid tokenizer",
        ),
        ("tokenizer_config.json", b"nonsense", "tokenizer_config.json is not JSON"),
        ("tokenizer_config.json", b'{"bos_token": "<bos>"}', "'<bos>'"),
        ("tokenizer_config.json", b'{"bos_token": 7}', "not a token"),
        ("special_tokens_map.json", b'{"eos_token": "<eos>"}', "special_tokens_map.json says that eos_token"),
    ],
)
def test_a_damaged_folder_is_refused_by_the_file_at_fault(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    write(tmp_path, byte_fallback())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(ModelError, match=words.replace("(", r"\(")):
        CausalTokenizer.open(tmp_path)


@given(data=st.data())
def test_any_damaged_file_gives_a_model_error_or_a_working_tokenizer(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One value anywhere in the file is replaced by one of another type."""
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not folder.exists():
        write(folder, metaspace())
        (folder / "sound.json").write_bytes((folder / "tokenizer.json").read_bytes())
    description = orjson.loads((folder / "sound.json").read_bytes())
    part: Any = description
    while True:
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
        if not part[key] or not isinstance(part[key], (dict, list)) or data.draw(st.booleans()):
            break
        part = part[key]
    part[key] = data.draw(st.sampled_from([None, True, -1, 2**70, "x", [], {}, [[]], ["a", 1.5], {"type": "BPE"}]))
    (folder / "tokenizer.json").write_text(json.dumps(description))

    try:
        tokenizer = CausalTokenizer.open(folder)
    except ModelError:
        return
    with contextlib.suppress(ModelError):
        tokenizer.encode("hello </s>")


def test_a_character_that_the_tokenizer_cannot_encode_is_reported(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, Tokenizer(Unigram([("a", -1.0)])))

    assert len(tokenizer.encode("aa").ids) == 2
    with pytest.raises(ModelError, match="cannot tokenize"):
        tokenizer.encode("ab")


def test_other_threads_run_while_a_long_text_is_tokenized(tmp_path: Path) -> None:
    """A lane that tokenizes does not block the others: the library releases the interpreter's lock."""
    tokenizer = opened(tmp_path, byte_level())
    text = "hello world 字 " * 20_000
    num_ticks, is_cut = 0, threading.Event()

    def tick() -> None:
        nonlocal num_ticks
        while not is_cut.wait(0.001):
            num_ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    num_before = num_ticks
    # Only the library's part: `encode` processes its result in Python, with the lock.
    tokenizer._tokenizer.encode_batch([text], add_special_tokens=False)
    num_meanwhile = num_ticks - num_before
    is_cut.set()
    thread.join()

    assert num_meanwhile > 10


# --- effects of other files


@pytest.mark.parametrize("name", CASES)
def test_other_files_have_the_same_effect_as_in_transformers(tmp_path: Path, name: str) -> None:
    tokenizer = CausalTokenizer.open(write_case(tmp_path / "model", name))

    assert [tokenizer.encode(text).ids for text in TEXTS] == RECORDED["ids"][name]


def test_the_golden_texts_cover_a_space_and_an_added_token(tmp_path: Path) -> None:
    without, with_flag = (f"outermost False, GPT2Tokenizer, {flag}" for flag in ("silent", True))
    plain = CausalTokenizer.open(write(tmp_path, byte_level())).encode(TEXTS[9]).ids

    assert RECORDED["ids"][without] != RECORDED["ids"][with_flag]
    assert RECORDED["ids"]["a plain one, new"][9] != plain
