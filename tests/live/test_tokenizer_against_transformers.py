"""Our Marian tokenizer and transformers' on the same texts, live. Needs transformers, and the files of a real model.

    pytest tests/live

Different by intention, and left out: transformers reads `</s>`, `<unk>` and `<pad>` in a text as special (so it is told
not to, by `split_special_tokens`), and takes a text that begins with `>>…<<` for a language label.
"""

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.places import GOLDEN, OPUS_MT
from worker.text.marian_tokenizer import MarianTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is not installed (pip install '.[train]')")

RECORDED = json.loads((GOLDEN / "marian_tokenizer.json").read_text())

pytestmark = [
    pytest.mark.may_skip,
    pytest.mark.skipif(not OPUS_MT.is_dir(), reason=f"there is no {OPUS_MT} (KVJOBS_TEST_DATA)"),
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),  # it is not called on encoding
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
def ours() -> MarianTokenizer:
    return MarianTokenizer.open(OPUS_MT)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return transformers.MarianTokenizer.from_pretrained(OPUS_MT)


def is_read_as_a_label(text: str) -> bool:
    return text.startswith(">>") and "<<" in text


def theirs_encode(theirs: Any, text: str) -> list[int]:
    ids: list[int] = theirs(text, split_special_tokens=True)["input_ids"]
    return ids


def theirs_encode_target(theirs: Any, text: str) -> list[int]:
    ids: list[int] = theirs(text_target=text, split_special_tokens=True)["input_ids"]
    return ids


def test_the_golden_file_is_what_transformers_says_today(theirs):
    assert [theirs_encode(theirs, case["text"]) for case in RECORDED["encoded"]] == [
        case["ids"] for case in RECORDED["encoded"]
    ]
    assert [theirs_encode_target(theirs, case["text"]) for case in RECORDED["encoded"]] == [
        case["target_ids"] for case in RECORDED["encoded"]
    ]


@settings(max_examples=1000, deadline=None)
@given(text=texts)
def test_ids_are_equal(ours, theirs, text):
    assume(not is_read_as_a_label(text))

    assert ours.encode(text, None) == theirs_encode(theirs, text)


@settings(max_examples=1000, deadline=None)
@given(text=texts)
def test_target_ids_are_equal(ours, theirs, text):
    assume(not is_read_as_a_label(text))

    assert ours.encode_target(text) == theirs_encode_target(theirs, text)


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_texts_without_special_words_need_no_special_treatment(ours, theirs, text):
    assume(not is_read_as_a_label(text) and not any(word in text for word in theirs.all_special_tokens))

    assert ours.encode(text, None) == theirs(text)["input_ids"]


@settings(max_examples=1000, deadline=None)
@given(ids=st.lists(st.integers(0, 54687) | st.sampled_from([0, 1, 54687])))
@example(ids=[0, 54687, 1])
def test_decoded_texts_are_equal(ours, theirs, ids):
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_transformers_neither_normalises_nor_cleans_up(theirs):
    """The two assumptions that `worker.text.marian_tokenizer` rests on."""
    assert theirs.clean_up_tokenization_spaces is False
    assert theirs_encode(theirs, "“")[:-1] != theirs_encode(theirs, '"')[:-1]
    assert theirs.normalize("“") in ("“", '"')  # Moses would, where sacremoses is installed; encoding does not ask


def test_transformers_does_read_special_words_as_special(ours, theirs):
    """The difference that is intended: a document may say `</s>`."""
    assert theirs.eos_token_id in theirs("a </s> b")["input_ids"][:-1]
    assert ours.eos_id not in ours.encode("a </s> b", None)[:-1]
