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

# As transformers has it (tests/golden/make_tokenizer_config_golden.py).
RECORDED = json.loads((GOLDEN / "tokenizer_config.json").read_text(encoding="utf-8"))

# Letters that the tokenizers know, others of each width in UTF-8, marks that combine, white space, a control character.
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
def theirs(folder: Path) -> Tokenizer:
    """What the library makes of the same file."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def level(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    return opened(tmp_path_factory.mktemp("level"), byte_level())


def pieces(tokenizer: CausalTokenizer, text: str) -> list[tuple[str, bytes]]:
    """Each token as people read it, and the bytes of the text where it stands."""
    encoded = tokenizer.encode(text)
    content = text.encode("utf-8", "surrogatepass")
    return [
        (tokenizer.token_text(token_id), content[start:stop])
        for token_id, start, stop in zip(encoded.ids, encoded.starts, encoded.stops, strict=True)
    ]


@given(text=TEXT.filter(lambda text: "<" not in text and "[" not in text and not re.search("[\ud800-\udfff]", text)))
def test_ids_are_those_of_the_library(tokenizer: CausalTokenizer, theirs: Tokenizer, text: str) -> None:
    """What hides the special tokens changes nothing else."""
    assert tokenizer.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids


@given(text=TEXT)
@example(text="")
@example(text="e\u0301\u0301字")
@example(text="\ud800a\udfff")
def test_offsets_rise_and_leave_out_nothing_but_white_space(tokenizer: CausalTokenizer, text: str) -> None:
    """Each byte has at most one token; those before the first and between tokens that have none are white space,
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


def test_a_character_cut_into_bytes_has_a_byte_for_each(tmp_path: Path) -> None:
    fallback = opened(tmp_path / "fallback", byte_fallback())

    assert pieces(opened(tmp_path / "level", byte_level()), "o龍") == [
        ("o", b"o"),
        ("<0xE9>", b"\xe9"),
        ("<0xBE>", b"\xbe"),
        ("<0x8D>", b"\x8d"),
    ]
    assert pieces(fallback, "龍字") == [
        (" ", b""),  # put there by the tokenizer: no text
        ("<0xE9>", b"\xe9"),
        ("<0xBE>", b"\xbe"),
        ("<0x8D>", b"\x8d"),
        ("字", "字".encode()),
    ]
    assert pieces(fallback, "hel") == [(" h", b"h"), ("el", b"el")]


def test_offsets_are_of_the_text_before_it_was_normalized(tmp_path: Path) -> None:
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


def test_a_special_token_that_merges_could_find_whole_is_plain_text(tmp_path: Path) -> None:
    """With `ignore_merges`, as Llama 3 has it, a word that stands in the vocabulary is taken as it is."""
    folder = write(tmp_path, byte_level(ignore_merges=True))
    description = json.loads((folder / "tokenizer.json").read_text())
    description["model"]["vocab"]["end"] = len(description["model"]["vocab"])
    description["added_tokens"].append(
        {**description["added_tokens"][0], "id": description["model"]["vocab"]["end"], "content": "end"}
    )
    (folder / "tokenizer.json").write_text(json.dumps(description))

    assert len(CausalTokenizer.open(folder).encode("end").ids) > 1


def test_a_special_token_that_text_is_made_of_stays(tmp_path: Path) -> None:
    """`!` is the padding of some models; a text may still say it."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["!", "hello"])

    assert [text for text, _ in pieces(opened(tmp_path, tokenizer), "hello!")] == ["hello", "!"]


def test_added_tokens_that_are_not_special_are_found(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens(["<tool>"])

    assert ("<tool>", b"<tool>") in pieces(opened(tmp_path, tokenizer), "a <tool>é")


def test_nothing_is_put_around_cut_off_or_filled_up(tmp_path: Path) -> None:
    """Whatever the file says."""
    tokenizer = metaspace()
    plain = opened(tmp_path / "plain", tokenizer).encode("hello world").ids
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=40)

    assert opened(tmp_path / "set", tokenizer).encode("hello world").ids == plain
    assert len(plain) > 3


def test_decoding_gives_the_text_back(tokenizer: CausalTokenizer, kind: str) -> None:
    text = "hello world"
    special = tokenizer.max_id + 1 if kind == "byte-level" else 1

    assert tokenizer.decode([special, *tokenizer.encode(text).ids]) == text


def test_a_lone_surrogate_counts_as_a_replacement_character(tokenizer: CausalTokenizer) -> None:
    assert tokenizer.encode("he\ud83dl").ids == tokenizer.encode("he\ufffdl").ids


@pytest.mark.parametrize(
    ("files", "bos", "eos"),
    [
        ({}, None, None),
        ({"tokenizer_config": {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}}}, 1, 2),
        # transformers reads special_tokens_map.json over an old tokenizer_config.json, and not at all beside a new one.
        ({"tokenizer_config": {"bos_token": "<s>"}, "special_tokens_map": {"bos_token": "</s>"}}, 2, None),
        (
            {
                "tokenizer_config": {"bos_token": "<s>", "added_tokens_decoder": {}},
                "special_tokens_map": {"bos_token": "</s>"},
            },
            1,
            None,
        ),
        # A tokenizer of transformers has no BOS that only config.json names: it has that of its files, or of its class.
        ({"config": {"bos_token_id": 1, "eos_token_id": 2}}, None, 2),
        ({"config": {"bos_token_id": 2, "model_type": "llama"}}, 1, None),
        ({"config": {"model_type": "llama"}, "tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"}}, None, None),
        ({"tokenizer_config": {"tokenizer_class": "LlamaTokenizerFast"}}, 1, None),
        ({"tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "bos_token": None}}, None, None),
        ({"config": {"tokenizer_class": "GPT2Tokenizer"}}, None, None),  # <|endoftext|>, which this vocabulary lacks
        # Of EOS the model's files speak where the tokenizer's are silent, and not where they say that there is none.
        ({"config": {"eos_token_id": 2}, "tokenizer_config": {"eos_token": None}}, None, None),
        ({"config": {"eos_token_id": 1}, "generation_config": {"eos_token_id": [2, 1]}}, None, 2),
        # A configuration class writes its defaults whatever the vocabulary has there.
        ({"config": {"bos_token_id": 5, "eos_token_id": 99999}}, None, None),
    ],
)
def test_bos_and_eos_are_those_that_the_files_name(
    tmp_path: Path, files: dict[str, Any], bos: int | None, eos: int | None
) -> None:
    tokenizer = opened(tmp_path, metaspace(), **files)

    assert (tokenizer.bos_id, tokenizer.eos_id) == (bos, eos)


def test_the_vocabulary_ends_after_its_highest_id(tmp_path: Path) -> None:
    """What is never in a text, `<|im_start|>` and padding, is in the vocabulary and never given to a model."""
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
def test_whatever_a_damaged_file_says_is_a_model_error_or_a_tokenizer(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One value anywhere in the file replaced by another kind."""
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not folder.exists():
        write(folder, metaspace())
        (folder / "sound.json").write_bytes((folder / "tokenizer.json").read_bytes())
    description = orjson.loads((folder / "sound.json").read_bytes())
    place: Any = description
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from([None, True, -1, 2**70, "x", [], {}, [[]], ["a", 1.5], {"type": "BPE"}]))
    (folder / "tokenizer.json").write_text(json.dumps(description))

    try:
        tokenizer = CausalTokenizer.open(folder)
    except ModelError:
        return
    with contextlib.suppress(ModelError):
        tokenizer.encode("hello </s>")


def test_a_tokenizer_without_a_word_for_a_character_says_so(tmp_path: Path) -> None:
    tokenizer = opened(tmp_path, Tokenizer(Unigram([("a", -1.0)])))

    assert len(tokenizer.encode("aa").ids) == 2
    with pytest.raises(ModelError, match="cannot tokenize"):
        tokenizer.encode("ab")


def test_other_threads_go_on_while_a_long_text_is_cut(tmp_path: Path) -> None:
    """A lane that tokenizes does not hold up the others: the interpreter's lock is free meanwhile."""
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
    # The library's part alone: what `encode` does with its answer is Python.
    tokenizer._tokenizer.encode_batch([text], add_special_tokens=False)
    num_meanwhile = num_ticks - num_before
    is_cut.set()
    thread.join()

    assert num_meanwhile > 10


# --- what other files change


@pytest.mark.parametrize("name", CASES)
def test_other_files_change_what_they_change_in_transformers(tmp_path: Path, name: str) -> None:
    tokenizer = CausalTokenizer.open(write_case(tmp_path / "model", name))

    assert [tokenizer.encode(text).ids for text in TEXTS] == RECORDED["ids"][name]


def test_the_golden_ids_tell_a_space_and_an_added_token_apart(tmp_path: Path) -> None:
    silent, spoken = (f"outermost False, GPT2Tokenizer, {said}" for said in ("silent", True))
    plain = CausalTokenizer.open(write(tmp_path, byte_level())).encode(TEXTS[9]).ids

    assert RECORDED["ids"][silent] != RECORDED["ids"][spoken]
    assert RECORDED["ids"]["a plain one, new"][9] != plain
