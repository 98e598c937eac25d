"""The Marian tokenizer on tiny vocabularies, and on a real one if it is on this machine."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SpecError
from tests.places import GOLDEN, OPUS_MT
from worker.text.translation.marian_tokenizer import MarianTokenizer

RECORDED = json.loads((GOLDEN / "marian_tokenizer.json").read_text())
NEEDS_OPUS_MT = pytest.mark.skipif(not OPUS_MT.is_dir(), reason=f"there is no {OPUS_MT} (KVJOBS_TEST_DATA)")

SPECIAL_LOOKING = ["</s>", "<unk>", "<pad>", "<s>", ">>fra<<", ">>cmn_Hans<<", ">>fra<< ", "<0x41>", "▁", " "]
any_text = st.text(st.characters(exclude_categories=[]))  # including lone surrogates
tempting_text = st.lists(st.sampled_from(SPECIAL_LOOKING) | any_text).map("".join)


def vocabulary(folder: Path, name: str = "vocab.json") -> dict[str, int]:
    ids: dict[str, int] = json.loads((folder / name).read_text())
    return ids


def needed_language(tokenizer: MarianTokenizer) -> str | None:
    return min(tokenizer.languages, default=None)


# --- encoding


def test_ids_come_from_the_vocabulary_not_from_the_sentencepiece_model(folders, tokenizers):
    text = "Rain is likely."
    for name in ("opus", "shuffled", "tc-big"):
        ids = vocabulary(folders[name])
        spm = sentencepiece.SentencePieceProcessor(model_file=str(folders[name] / "source.spm"))
        expected = [ids[piece] for piece in spm.encode(text, out_type=str)]

        assert tokenizers[name].encode(text, None) == [*expected, ids["</s>"]]


def test_the_language_label_is_the_first_id_and_the_end_the_last(folders, tokenizers):
    ids = vocabulary(folders["multilingual"])

    encoded = tokenizers["multilingual"].encode("Rain.", "cmn_Hant")

    assert encoded[0] == ids[">>cmn_Hant<<"]
    assert encoded[-1] == ids["</s>"]
    assert encoded[1:] == tokenizers["multilingual"].encode("Rain.", "fra")[1:]


def test_a_made_up_sentence_has_pieces_of_texts_and_the_same_ones_each_time(folders, tokenizers):
    for name in ("opus", "shuffled", "tc-big"):
        tokenizer, ids = tokenizers[name], vocabulary(folders[name])
        special = {ids[piece] for piece in ("</s>", "<pad>")}

        sentence, again, of_other_seed = (tokenizer.draw(Random(seed), 30) for seed in (0, 0, 1))

        assert sentence == again != of_other_seed
        *pieces, end = sentence[1:] if tokenizer.languages else sentence
        assert end == tokenizer.eos_id
        assert len(pieces) == 30
        assert not special & {*pieces}
        assert len({*pieces}) > 5
        if tokenizer.languages:
            assert sentence[0] in {ids[f">>{language}<<"] for language in tokenizer.languages}


def test_an_empty_text_is_encoded_to_the_end_alone(tokenizers):
    for text in ("", " ", "\n\t", "▁"):
        assert tokenizers["tc-big"].encode(text, None) == [tokenizers["tc-big"].eos_id]


def test_an_unknown_character_is_unk_and_not_the_end(tokenizers):
    tokenizer = tokenizers["tc-big"]

    assert tokenizer.unk_id in tokenizer.encode("Rain ☃ snow", None)
    assert tokenizer.encode("☃", None).count(tokenizer.eos_id) == 1


@pytest.mark.parametrize(
    ("text", "share"),
    [("", 0.0), ("Rain", 0.0), ("ฝนตก", 1.0), (" ฝน ตก ", 1.0), ("Rain ฝนตก", 0.5), ("\ud800Raฝฝ", 0.4)],
)
def test_what_is_unknown_of_a_text_is_a_share_of_its_characters(tokenizers, text, share):
    assert tokenizers["opus"].unknown_share(text) == pytest.approx(share)


def test_a_character_that_only_the_target_side_knows_has_its_id(folders, tokenizers):
    """`source.spm` does not know it, but the vocabulary has it; transformers and Marian do the same."""
    assert vocabulary(folders["opus"])["雨"] in tokenizers["opus"].encode("the 雨 falls", None)


@given(text=tempting_text)
def test_no_text_becomes_a_special_id(tokenizers, folders, text):
    for name, tokenizer in tokenizers.items():
        ids = vocabulary(folders[name])
        special = {i for piece, i in ids.items() if piece in ("</s>", "<pad>", "<s>") or piece.startswith(">>")}
        language = needed_language(tokenizer)

        encoded = tokenizer.encode(text, language)

        assert special.isdisjoint(encoded[1 if language else 0 : -1])
        assert encoded[-1] == ids["</s>"]


def test_a_special_word_that_is_one_unknown_piece_is_encoded_as_unk(folders, tokenizers):
    spm = sentencepiece.SentencePieceProcessor(model_file=str(folders["cyrillic"] / "source.spm"))
    assert "</s>" in spm.encode("дождь</s>", out_type=str)  # this model really gives the special word as a piece

    assert tokenizers["cyrillic"].encode("дождь</s>", None).count(tokenizers["cyrillic"].eos_id) == 1


def test_a_lone_surrogate_is_encoded_as_the_replacement_character(tokenizers):
    for tokenizer in (tokenizers["opus"], tokenizers["bytes"]):
        assert tokenizer.encode("rain\ud800snow", None) == tokenizer.encode("rain\ufffdsnow", None)


def test_a_nul_does_not_end_the_text(tokenizers):
    tokenizer = tokenizers["opus"]

    assert len(tokenizer.encode("rain\x00 and snow", None)) > len(tokenizer.encode("rain", None)) + 1


# --- the target side


def test_a_target_is_cut_by_its_own_sentencepiece_model_with_ids_of_its_own_vocabulary(folders, tokenizers):
    text = "周一有雨。"
    for name, file in (("opus", "vocab.json"), ("tc-big", "target_vocab.json")):
        ids = vocabulary(folders[name], file)
        spm = sentencepiece.SentencePieceProcessor(model_file=str(folders[name] / "target.spm"))
        expected = [ids[piece] for piece in spm.encode(text, out_type=str)]

        assert tokenizers[name].encode_target(text) == [*expected, tokenizers[name].eos_id]


def test_an_unknown_character_of_a_target_has_the_targets_unk_id(folders, tokenizers):
    for name, file in (("opus", "vocab.json"), ("tc-big", "target_vocab.json")):
        assert vocabulary(folders[name], file)["<unk>"] in tokenizers[name].encode_target("雨 ☃")


@given(text=tempting_text)
def test_no_target_text_becomes_a_special_id(tokenizers, folders, text):
    for name, tokenizer in tokenizers.items():
        file = "target_vocab.json" if (folders[name] / "target_vocab.json").exists() else "vocab.json"
        ids = vocabulary(folders[name], file)
        special = {i for piece, i in ids.items() if piece in ("</s>", "<pad>", "<s>") or piece.startswith(">>")}

        encoded = tokenizer.encode_target(text)

        assert special.isdisjoint(encoded[:-1])
        assert encoded[-1] == tokenizer.eos_id


@given(text=tempting_text)
def test_pieces_of_a_target_are_contiguous_and_cover_it(tokenizers, text):
    """Except for white space at both ends; and no character is cut in two."""
    content = text.encode("utf-8", "surrogatepass")
    for tokenizer in tokenizers.values():
        pieces = tokenizer.cut_target(text)
        start, end = (pieces[0].start, pieces[-1].stop) if pieces else (0, 0)

        assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
        for part in (content[:start], content[end:]):
            assert tokenizer.cut_target(part.decode("utf-8", "surrogatepass")) == []
        for piece in pieces:
            content[piece.start : piece.stop].decode("utf-8", "surrogatepass")


# --- splitting


@given(text=tempting_text, max_tokens=st.integers(3, 40))
def test_the_pieces_of_an_over_long_text_add_up_to_it(tokenizers, text, max_tokens):
    for tokenizer in tokenizers.values():
        language = needed_language(tokenizer)
        num_labels = 1 if language else 0
        whole = tokenizer.encode(text, language)

        lists = tokenizer.split(text, language, max_tokens)

        assert all(len(ids) <= max_tokens for ids in lists)
        assert all(ids[:num_labels] == whole[:num_labels] and ids[-1] == tokenizer.eos_id for ids in lists)
        assert [i for ids in lists for i in ids[num_labels:-1]] == whole[num_labels:-1]
        assert lists == [whole] or (len(whole) > max_tokens and all(len(ids) > 1 + num_labels for ids in lists))


def test_a_text_that_just_fits_is_not_split(tokenizers):
    tokenizer = tokenizers["opus"]
    whole = tokenizer.encode("Rain is expected in the northern valleys.", None)

    assert tokenizer.split("Rain is expected in the northern valleys.", None, len(whole)) == [whole]
    assert len(tokenizer.split("Rain is expected in the northern valleys.", None, len(whole) - 1)) == 2


def test_parts_start_at_a_word_if_words_are_shorter_than_half_a_part(folders, tokenizers):
    ids = vocabulary(folders["opus"])
    starts = {i for piece, i in ids.items() if piece.startswith("▁")}

    lists = tokenizers["opus"].split("Rain in the northern valleys. " * 40, None, 64)

    assert len(lists) > 3
    assert all(part[0] in starts for part in lists)


def test_a_part_is_filled_completely_if_the_next_word_starts_right_after(folders, tokenizers):
    tokenizer = tokenizers["opus"]
    words = (piece.removeprefix("▁") for piece in vocabulary(folders["opus"]) if piece.startswith("▁"))
    word = next(word for word in words if len(tokenizer.encode(word, None)) == 2)  # a word of one piece, and the end

    assert [len(part) for part in tokenizer.split(f"{word} " * 7, None, 4)] == [4, 4, 2]


def test_without_a_word_start_parts_end_at_punctuation(folders, tokenizers):
    pieces = {i: piece for piece, i in vocabulary(folders["chinese"]).items()}

    lists = tokenizers["chinese"].split("高山地区将会下雪，风力可达四十节。" * 80, None, 64)

    assert len(lists) > 3
    assert all(pieces[part[-2]].endswith((",", "。")) for part in lists)  # training normalized ， to a plain comma


def test_a_limit_without_room_for_a_piece_is_refused(tokenizers):
    with pytest.raises(SpecError, match="max_tokens is 2"):
        tokenizers["multilingual"].split("Rain", "fra", 2)


# --- decoding


def test_a_text_of_known_words_survives_a_round_trip(folders, tokenizers):
    ids = vocabulary(folders["tc-big"], "target_vocab.json")
    spm = sentencepiece.SentencePieceProcessor(model_file=str(folders["tc-big"] / "target.spm"))
    pieces = spm.encode("高山地区 将会下雪", out_type=str)

    assert tokenizers["tc-big"].decode([ids[piece] for piece in pieces]) == "高山地区 将会下雪"


def test_end_padding_and_unknown_decode_to_nothing(folders, tokenizers):
    for name, file in (("opus", "vocab.json"), ("shuffled", "vocab.json"), ("tc-big", "target_vocab.json")):
        ids = vocabulary(folders[name], file)
        silent = [ids["<pad>"], ids["</s>"], ids["<unk>"], 10**6]

        assert tokenizers[name].decode([*silent, ids["雨"], *silent, ids["。"], *silent]) == "雨。"
        assert tokenizers[name].decode([]) == ""


def test_the_target_vocabulary_has_its_own_end_id(folders, tokenizers):
    """With separate vocabularies the id of the source's end is an ordinary piece of the target, or unused."""
    source, target = vocabulary(folders["tc-big"]), vocabulary(folders["tc-big"], "target_vocab.json")
    assert source["</s>"] != target["</s>"]
    word = next(piece for piece, i in target.items() if i == source["<unk>"])

    assert tokenizers["tc-big"].decode([source["<unk>"]]) == word.replace("▁", " ").strip()


def test_byte_pieces_decode_to_characters(folders, tokenizers):
    ids = vocabulary(folders["bytes"])
    snowman = [ids[f"<0x{byte:02X}>"] for byte in "☃".encode()]

    assert tokenizers["bytes"].decode([*snowman, ids["雨"]]) == "☃雨"
    assert tokenizers["bytes"].decode([snowman[0], ids["雨"]]) == "\ufffd雨"


@given(st.lists(st.integers(0, 400)))
def test_any_ids_decode_to_clean_text(tokenizers, ids):
    for tokenizer in tokenizers.values():
        text = tokenizer.decode(ids)

        assert text == text.strip()
        assert not re.search("</s>|<pad>|<unk>|▁", text)


# --- languages


def test_the_target_languages_are_the_labels_of_the_vocabulary(tokenizers):
    assert tokenizers["multilingual"].languages == {"cmn_Hans", "cmn_Hant", "fra"}
    assert tokenizers["opus"].languages == frozenset()


def test_a_label_of_the_model_is_accepted(tokenizers):
    tokenizers["multilingual"].check_language("fra")
    tokenizers["opus"].check_language(None)


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        ("opus", "fra", "single target language"),
        ("multilingual", None, "several target languages; choose one: cmn_Hans, cmn_Hant, fra"),
        ("multilingual", "cmn", "no target language 'cmn'; it has cmn_Hant, cmn_Hans, fra"),
        ("multilingual", ">>fra<<", "no target language '>>fra<<'; it has fra"),
        ("multilingual", "", "no target language ''"),
    ],
)
def test_a_language_that_cannot_be_served_is_refused_with_those_that_can(tokenizers, name, language, message):
    with pytest.raises(SpecError, match=message):
        tokenizers[name].check_language(language)


def test_encoding_refuses_a_label_that_the_model_lacks(tokenizers):
    with pytest.raises(SpecError, match="'deu'"):
        tokenizers["multilingual"].encode("Rain", "deu")


def test_a_message_shows_only_a_few_of_many_labels(tokenizers):
    ids = {f">>x{i:03}<<": i + 2 for i in range(100)} | {"</s>": 0, "<unk>": 1}
    spm = tokenizers["opus"]._source
    many = MarianTokenizer(spm, spm, ids, {}, eos_id=0, unk_id=1, silent_ids=())

    with pytest.raises(SpecError, match=r"x077, .* and 88 more") as caught:
        many.check_language("x77")
    assert len(str(caught.value)) < 200


# --- lanes


def test_the_target_ids_are_those_that_target_texts_can_contain(tokenizers, folders):
    for name, tokenizer in tokenizers.items():
        folder = folders[name]
        separate = (folder / "target_vocab.json").is_file()
        ids = json.loads((folder / ("target_vocab.json" if separate else "vocab.json")).read_text())
        target = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))

        kept = tokenizer.target_ids()

        assert {ids["</s>"], ids["<unk>"], ids["<pad>"]} <= kept, name
        for sentence in ("周一北部山谷预计有雨。", "Rain on Monday.", "Завтра дождь."):
            pieces = target.encode(sentence, out_type=str)
            known = [piece for piece in pieces if not target.is_unknown(target.piece_to_id(piece))]
            assert {ids[piece] for piece in known if piece in ids} <= kept, name
        assert kept <= set(ids.values()), name
    assert len(tokenizers["opus"].target_ids()) < len(json.loads((folders["opus"] / "vocab.json").read_text()))


def test_several_lanes_can_use_one_tokenizer_at_the_same_time(tokenizers):
    tokenizer = tokenizers["multilingual"]
    texts = [
        f"{sentence} {i}"
        for i, sentence in enumerate(["Rain is expected in the northern valleys.", "It was sunny; 12 degrees."] * 40)
    ]

    def work(text: str) -> tuple[list[int], str]:
        ids = tokenizer.encode(text, "fra")
        return ids, tokenizer.decode(ids)

    with ThreadPoolExecutor(8) as lanes:
        assert list(lanes.map(work, texts)) == [work(text) for text in texts]


# --- a real vocabulary, compared with ids recorded from transformers


@pytest.fixture(scope="session")
def real() -> MarianTokenizer:
    return MarianTokenizer.open(OPUS_MT)


@pytest.mark.may_skip
@NEEDS_OPUS_MT
def test_a_real_vocabulary_gives_the_ids_that_transformers_gave(real):
    differing = [case for case in RECORDED["encoded"] if real.encode(case["text"], None) != case["ids"]]

    assert not differing


@pytest.mark.may_skip
@NEEDS_OPUS_MT
def test_a_real_vocabulary_gives_the_target_ids_that_transformers_gave(real):
    differing = [case for case in RECORDED["encoded"] if real.encode_target(case["text"]) != case["target_ids"]]

    assert not differing


@pytest.mark.may_skip
@NEEDS_OPUS_MT
def test_a_real_vocabulary_gives_the_text_that_transformers_gave(real):
    differing = [case for case in RECORDED["decoded"] if real.decode(case["ids"]) != case["text"]]

    assert not differing


@pytest.mark.may_skip
@NEEDS_OPUS_MT
@pytest.mark.parametrize("text", ["</s>", "<unk> <pad> <s>", ">>fr<< Hello", ">>fr<<", "</s></s>"])
def test_a_real_vocabulary_has_no_special_id_for_text(real, text):
    encoded = real.encode(text, None)

    assert {real.eos_id, 54687, real.unk_id}.isdisjoint(encoded[:-1])
    assert len(encoded) > 3
