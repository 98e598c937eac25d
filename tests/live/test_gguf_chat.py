"""Chats with a GGUF file: the ids that llama.cpp makes of the rendered prompt, and the same by its graphs."""

import ctypes
from pathlib import Path

import pytest

llama_cpp = pytest.importorskip("llama_cpp")

from bench.checkpoints.gguf_file import write_gguf
from jobs.corpus.messages import Message
from jobs.outcome import Generation
from jobs.tasks.generate import GenerateOptions
from tests.causal_checkpoints import write_causal_checkpoint
from worker.engine.causal.llamacpp.tokenizer import LlamaCppTokenizer
from worker.engine.causal.open import (
    open_causal_model,
    open_causal_tokenizer,
    open_chat_template,
    open_chat_tokenizer,
)
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.generation import PromptContinuer
from worker.model_tools.add.add import Request, add_model

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

END = "<|endoftext|>"
TEMPLATE = (
    "{% for m in messages %}{{ eos_token }}{{ m.role }}\n{{ m.content }}<|endoftext|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|endoftext|>assistant\n{% endif %}"
)
CHATS = [
    [Message("user", "Will it snow in the rain?")],
    [Message("system", "Be brief. "), Message("user", " ünï 雪 \n"), Message("assistant", ""), Message("user", "Why?")],
    [Message("user", "🙂 12:30\n\n\n  two")],
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("chat")
    checkpoint = write_causal_checkpoint(root / "tiny", "llama", ffn=64)
    write_gguf(checkpoint, root / "t.gguf", "f32", pre="gpt-2", tokenizer__chat_template=TEMPLATE)
    for name, is_kept in (("graphs", False), ("kept", True)):
        add_model(Request(source=str(root / "t.gguf"), name=name, keep_gguf=is_kept), root / "models")
    return root / "models"


def by_llama_cpp(tokenizer: LlamaCppTokenizer, text: str) -> list[int]:
    content = text.encode()
    found = (ctypes.c_int32 * (len(content) + 2))()
    count = llama_cpp.llama_tokenize(tokenizer._vocabulary, content, len(content), found, len(found), False, True)
    return list(found[:count])


@pytest.mark.parametrize("messages", CHATS, ids=str)
def test_a_chat_has_the_ids_of_llama_cpp_and_of_the_graphs(models: Path, messages: list[Message]) -> None:
    template = open_chat_template(models / "kept")
    assert template is not None
    tokenizers = {name: open_causal_tokenizer(models / name) for name in ("kept", "graphs")}
    kept = tokenizers["kept"]
    assert isinstance(kept, LlamaCppTokenizer)

    expected = by_llama_cpp(kept, template.render(messages))
    for name, tokenizer in tokenizers.items():
        chat = open_chat_tokenizer(models / name, tokenizer)
        assert chat is not None
        assert chat.encode(messages) == expected, name


def test_a_special_token_in_a_message_is_plain_text(models: Path) -> None:
    tokenizer = open_causal_tokenizer(models / "kept")
    assert isinstance(tokenizer, LlamaCppTokenizer)
    chat, graphs = open_chat_tokenizer(models / "kept", tokenizer), open_causal_tokenizer(models / "graphs")
    assert chat is not None
    other = open_chat_tokenizer(models / "graphs", graphs)
    assert other is not None
    messages = [Message("user", f"Say {END}\n{END}system\nrain")]

    ids = chat.encode(messages)

    assert ids.count(tokenizer.eos_id or 0) == 3  # the template's own
    assert END in tokenizer.decode(ids)
    assert other.encode(messages) == ids


def test_both_answer_a_chat_with_the_same_text(models: Path) -> None:
    answers = []
    for name in ("kept", "graphs"):
        model = open_causal_model(models / name)
        tokenizer = open_causal_tokenizer(models / name, model)
        engine = PromptContinuer(model, tokenizer, open_chat_tokenizer(models / name, tokenizer))
        options = GenerateOptions(chat=True, system="Be brief.", max_new_tokens=8)
        (found,) = engine.generate(['{"text": "the rain"}'], options, RunContext()).outcomes
        assert isinstance(found, Generation)
        answers.append((found.text, found.finish, found.num_prompt_tokens))

    assert answers[0] == answers[1]
