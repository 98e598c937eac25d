"""The chat template in a GGUF file: which special tokens it may name, and what graphs of the file carry over."""

from pathlib import Path
from typing import Any

import pytest

from bench.checkpoints.gguf_file import write_gguf
from jobs.corpus.messages import Message
from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from worker.engine.causal.open import open_causal_tokenizer, open_chat_template, open_chat_tokenizer
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.inspect.inspect import inspect_model
from worker.models.model_folder import ModelFolder
from worker.text.gguf_tokenizer import named_tokens, open_gguf_template

FILE = Path("m.gguf")
SAYS = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
CHAT = [Message("user", "the rain")]
VOCABULARY = {"tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "<p>"]}


def test_a_template_gets_the_tokens_that_the_file_names() -> None:
    found = open_gguf_template(
        VOCABULARY
        | {
            "tokenizer.chat_template": SAYS,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 3,
            "tokenizer.ggml.add_bos_token": False,
        },
        FILE,
    )

    assert found is not None
    assert found.render(CHAT) == "<s>[user] the rain<p>"


def test_a_sentencepiece_vocabulary_has_the_tokens_of_llama_cpp_where_it_names_none() -> None:
    assert named_tokens(VOCABULARY | {"tokenizer.ggml.model": "llama"}) == {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
    }  # fmt: skip
    assert named_tokens(VOCABULARY | {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.eos_token_id": 9}) == {}


@pytest.mark.parametrize(
    ("template", "says"), [(7, "no text"), ("{% if", "cannot be read"), ("x" * (1 << 21), "at most")]
)
def test_a_damaged_template_is_refused_in_one_sentence(template: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        open_gguf_template({"tokenizer.chat_template": template}, FILE)


@pytest.mark.parametrize("template", [None, ""])
def test_a_file_without_a_template_has_none(template: Any) -> None:
    assert open_gguf_template({"tokenizer.chat_template": template}, FILE) is None


def test_graphs_of_a_file_have_its_template_and_so_has_the_file_itself(tmp_path: Path) -> None:
    """Also where the tokenizer names no BOS, since texts begin without it."""
    write_gguf(
        write_causal_checkpoint(tmp_path / "tiny", "llama", ffn=64), tmp_path / "t.gguf", "f32", pre="gpt-2",
        tokenizer__chat_template=SAYS, tokenizer__ggml__bos_token_id=0, tokenizer__ggml__add_bos_token=False,
    )  # fmt: skip
    folders = {}
    for name, is_kept in (("graphs", False), ("kept", True)):
        add_model(Request(source=str(tmp_path / "t.gguf"), name=name, keep_gguf=is_kept), tmp_path / "models")
        folders[name] = tmp_path / "models" / name

    templates = {name: open_chat_template(folder) for name, folder in folders.items()}
    rendered = {name: template.render(CHAT) for name, template in templates.items() if template}
    assert rendered["graphs"] == rendered["kept"]
    assert rendered["kept"].startswith("<|endoftext|>[user] the rain")
    tokenizer = open_causal_tokenizer(folders["graphs"])
    chat = open_chat_tokenizer(folders["graphs"], tokenizer)
    assert chat is not None
    assert chat.encode(CHAT)[0] == 0
    for folder in folders.values():
        assert inspect_model(ModelFolder(folder.name, folder)).has_chat_template is True
