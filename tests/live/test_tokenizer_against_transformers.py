"""The Marian tokenizer of kvjobs and that of transformers on the same texts. Needs the files of a real model.

    pytest tests/live

Intended differences are left out: transformers reads `</s>`, `<unk>` and `<pad>` in a text as special, which
`split_special_tokens` switches off here, and takes a text that begins with `>>…<<` for a language label.
"""

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.places import GOLDEN, OPUS_MT
from worker.text.translation.marian_tokenizer import MarianTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is not installed (pip install '.[train]')")

RECORDED = json.loads((GOLDEN / "marian_tokenizer.json").read_text())

pytestmark = [
    pytest.mark.may_skip,
    pytest.mark.skipif(not OPUS_MT.is_dir(), reason=f"there is no {OPUS_MT} (KVJOBS_TEST_DATA)"),
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),  # it is not used for encoding
]

PIECES_OF_TEXT = [
    "</s>",
    "<unk>",
    "<pad>",
    "<s>",
    ">>fr<<",
    "▁",
    "还",
    "😳",
    "“",
    "\x00",
    "\r\n",
    "\u2028",
    "the ",
    "ﬁ",
]
texts = st.text() | st.lists(st.sampled_from(PIECES_OF_TEXT) | st.text(max_size=3)).map("".join)


@pytest.fixture(scope="module")
def kvjobs_tokenizer() -> MarianTokenizer:
    return MarianTokenizer.open(OPUS_MT)


@pytest.fixture(scope="module")
def transformers_tokenizer() -> Any:
    return transformers.MarianTokenizer.from_pretrained(OPUS_MT)


def is_read_as_a_label(text: str) -> bool:
    return text.startswith(">>") and "<<" in text


def encode_with_transformers(transformers_tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = transformers_tokenizer(text, split_special_tokens=True)["input_ids"]
    return ids


def encode_target_with_transformers(transformers_tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = transformers_tokenizer(text_target=text, split_special_tokens=True)["input_ids"]
    return ids


def test_the_golden_file_equals_the_ids_of_the_installed_transformers(transformers_tokenizer):
    assert [encode_with_transformers(transformers_tokenizer, case["text"]) for case in RECORDED["encoded"]] == [
        case["ids"] for case in RECORDED["encoded"]
    ]
    assert [encode_target_with_transformers(transformers_tokenizer, case["text"]) for case in RECORDED["encoded"]] == [
        case["target_ids"] for case in RECORDED["encoded"]
    ]


@settings(max_examples=1000, deadline=None)
@given(text=texts)
def test_ids_are_equal(kvjobs_tokenizer, transformers_tokenizer, text):
    assume(not is_read_as_a_label(text))

    assert kvjobs_tokenizer.encode(text, None) == encode_with_transformers(transformers_tokenizer, text)


@settings(max_examples=1000, deadline=None)
@given(text=texts)
def test_target_ids_are_equal(kvjobs_tokenizer, transformers_tokenizer, text):
    assume(not is_read_as_a_label(text))

    assert kvjobs_tokenizer.encode_target(text) == encode_target_with_transformers(transformers_tokenizer, text)


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_texts_without_special_words_have_equal_ids_without_split_special_tokens(
    kvjobs_tokenizer, transformers_tokenizer, text
):
    assume(not is_read_as_a_label(text) and not any(word in text for word in transformers_tokenizer.all_special_tokens))

    assert kvjobs_tokenizer.encode(text, None) == transformers_tokenizer(text)["input_ids"]


@settings(max_examples=1000, deadline=None)
@given(ids=st.lists(st.integers(0, 54687) | st.sampled_from([0, 1, 54687])))
@example(ids=[0, 54687, 1])
def test_decoded_texts_are_equal(kvjobs_tokenizer, transformers_tokenizer, ids):
    assert kvjobs_tokenizer.decode(ids) == transformers_tokenizer.decode(ids, skip_special_tokens=True)


def test_transformers_neither_normalizes_nor_cleans_up(transformers_tokenizer):
    """`worker.text.translation.marian_tokenizer` relies on these two facts."""
    assert transformers_tokenizer.clean_up_tokenization_spaces is False
    assert (
        encode_with_transformers(transformers_tokenizer, "“")[:-1]
        != encode_with_transformers(transformers_tokenizer, '"')[:-1]
    )
    assert transformers_tokenizer.normalize("“") in ("“", '"')  # '"' with sacremoses, unused in encoding


def test_transformers_reads_special_words_in_a_text_as_special(kvjobs_tokenizer, transformers_tokenizer):
    """This is an intended difference: a document may contain `</s>`."""
    assert transformers_tokenizer.eos_token_id in transformers_tokenizer("a </s> b")["input_ids"][:-1]
    assert kvjobs_tokenizer.eos_id not in kvjobs_tokenizer.encode("a </s> b", None)[:-1]
