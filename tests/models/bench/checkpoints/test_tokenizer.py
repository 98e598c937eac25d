"""The tokenizer that the benchmark makes, opened by the tokenizer class of the workers."""

import json

import pytest
import sentencepiece

from bench.checkpoints.tokenizer import write_tokenizer
from worker.text.translation.marian_tokenizer import MarianTokenizer


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    write_tokenizer(folder, source_size=65_001, target_size=None, eos_id=0, pad_id=65_000)
    return folder


def test_every_id_of_a_joint_vocabulary_has_one_piece_and_half_the_ids_are_in_the_target(joint):
    vocabulary = json.loads((joint / "vocab.json").read_text(encoding="utf-8"))
    assert sorted(vocabulary.values()) == list(range(65_001))
    target = sentencepiece.SentencePieceProcessor(model_file=str(joint / "target.spm"))
    known = [
        vocabulary[piece] for piece in map(target.id_to_piece, range(target.get_piece_size())) if piece in vocabulary
    ]
    assert len(known) / 65_001 == pytest.approx(0.49, abs=0.01)
    assert sum(piece_id < 32_500 for piece_id in known) / len(known) == pytest.approx(0.5, abs=0.01)  # scattered


def test_a_word_is_cut_into_the_longest_pieces_and_decoded_again(joint):
    (joint / "config.json").write_text('{"vocab_size": 65001, "eos_token_id": 0, "pad_token_id": 65000}')
    tokenizer = MarianTokenizer.open(joint)

    assert len(tokenizer.encode("katomi resulo", None)) == 3
    vocabulary = json.loads((joint / "vocab.json").read_text(encoding="utf-8"))
    assert tokenizer.decode([vocabulary["▁bafe"], vocabulary["gi"], vocabulary["▁du"], 0]) == "bafegi du"


def test_separate_vocabularies_have_their_own_ids_but_the_same_special_ids(tmp_path):
    write_tokenizer(tmp_path, source_size=80, target_size=61, eos_id=43, pad_id=60)

    for file, size in (("vocab.json", 80), ("target_vocab.json", 61)):
        vocabulary = json.loads((tmp_path / file).read_text(encoding="utf-8"))
        assert sorted(vocabulary.values()) == list(range(size))
        assert (vocabulary["</s>"], vocabulary["<unk>"], vocabulary["<pad>"]) == (43, 0, 60)
