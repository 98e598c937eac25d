"""`models add` of checkpoints that have no tokenizer.json, but the files of an older tokenizer."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.seq2seq_checkpoints import FAMILIES
from tests.vocabularies import END, byte_level_files, split
from worker.model_tools.add.add import Added, Request, add_model
from worker.models.manifest import Manifest, sha256_of
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.text_pair_tokenizer import TextPairTokenizer
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

TEXTS = ("the rain falls on the hills", " Wind, snow 12!\n", "é 中文 <mask>", "", "rain in the north?")


def add(source: Path, name: str = "added") -> Added:
    return add_model(Request(source=str(source), name=name), source.parent / "models")


def causal(folder: Path) -> Path:
    """A checkpoint with the vocabulary of GPT-2's class."""
    files = byte_level_files("GPT2", (END,), add_prefix_space=True)
    checkpoint = write_causal_checkpoint(folder, "llama", vocab_size=512)
    (checkpoint / "tokenizer.json").unlink()
    (checkpoint / "vocab.json").write_text(json.dumps(files["vocab.json"]))
    (checkpoint / "merges.txt").write_text("".join(f"{line}\n" for line in files["merges.txt"]), encoding="utf-8")
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(files["tokenizer_config.json"]))
    return checkpoint


def test_the_tokenizer_of_a_causal_checkpoint_is_built_and_the_user_told(tmp_path):
    checkpoint = causal(tmp_path / "tiny")

    added = add(checkpoint)

    manifest, tokenizer = Manifest.read(Path(added.path)), CausalTokenizer.open(Path(added.path))
    assert added.note == (
        "The tokenizer is built from vocab.json and merges.txt, as transformers does: there is no tokenizer.json."
    )
    assert tokenizer.bos_id == 0
    assert tokenizer.encode("the").ids == tokenizer.encode(" the").ids  # add_prefix_space
    assert "tokenizer.json" in manifest.files
    assert {name: manifest.source_files[name] for name in ("vocab.json", "merges.txt")} == {
        name: sha256_of(checkpoint / name) for name in ("vocab.json", "merges.txt")
    }
    assert not {"vocab.json", "merges.txt"} & manifest.files.keys()


def test_a_tokenizer_json_is_taken_where_both_are_there(tmp_path):
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama")
    (checkpoint / "vocab.json").write_text("{}")
    (checkpoint / "merges.txt").write_text("")

    assert add(checkpoint).note is None


def test_a_translation_model_gets_the_ids_of_its_tokenizer_json(tmp_path):
    checkpoint = FAMILIES["bart"](tmp_path / "bart")
    expected = open_translation_tokenizer(checkpoint)
    split(checkpoint)

    added = add(checkpoint)

    found = open_translation_tokenizer(Path(added.path))
    assert added.note is not None
    assert [found.encode(text, None) for text in TEXTS] == [expected.encode(text, None) for text in TEXTS]


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_a_cross_encoder_gets_the_ids_of_its_tokenizer_json(tmp_path, family):
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "tiny", family)
    expected = TextPairTokenizer.open(checkpoint)
    split(checkpoint)

    found = TextPairTokenizer.open(Path(add(checkpoint).path))

    assert [found.encode(text) for text in TEXTS] == [expected.encode(text) for text in TEXTS]
    assert found.template == expected.template


def of_another_class(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')


def link_out(folder: Path) -> None:
    (folder / "merges.txt").rename(folder.parent / "merges.txt")
    (folder / "merges.txt").symlink_to(folder.parent / "merges.txt")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            of_another_class,
            r"/tiny is for a CTRLTokenizer, and read are .*; make a tokenizer\.json with .*AutoTokenizer",
        ),
        (link_out, r"/tiny/merges\.txt"),
        (
            lambda folder: (folder / "merges.txt").unlink(),
            r"/tiny/tokenizer\.json is missing: the tokenizer as one file",
        ),
        (lambda folder: (folder / "merges.txt").write_text("#\na b c\n"), r"/tiny/merges\.txt, line 2: 'a b c' is not"),
    ],
)
def test_a_vocabulary_that_cannot_be_read_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    checkpoint = causal(tmp_path / "tiny")
    spoil(checkpoint)

    with pytest.raises(ModelError, match=message):
        add(checkpoint)
    assert os.listdir(tmp_path / "models") == []
