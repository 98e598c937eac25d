"""Continuations compared with greedy `generate` of transformers: ids, and the log-probabilities of them."""

import json
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

from jobs.corpus.messages import Message
from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from tests.golden.make_chat_golden import CONVERSATIONS as GOLDEN_CONVERSATIONS
from tests.golden.make_chat_golden import FOLDER, SPECIAL, open_tokenizer, rendered
from tests.live.greedy_generate import compare, draw_prompts
from tests.live.test_causal_against_transformers import MODELS
from worker.engine.causal.native.model import NativeCausal
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.chat_template import ChatTemplate, ChatTokenizer

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ends": {"eos_token_id": [5, 17, 40], "min_new_tokens": 4},
    "penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "bad_words_ids": [[9], [11, 12]]},
    "renormalized": {"renormalize_logits": True, "suppress_tokens": [3, 8], "begin_suppress_tokens": [20]},
}
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "trimmed": "{{- bos_token }}\n{%- for m in messages %}\n    {%- set content = m.content | trim %}\n"
    "{{- '<|im_start|>' ~ m['role'] ~ '\\n\\n' ~ content ~ '<|im_end|>' }}\n{%- endfor %}\n"
    "{%- if not loop and add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}",
    "marked": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}[{{ m.role }}] {{ m.content | tojson }}{% if loop.last %}{% break %}{% endif %}{% endif %}{% endfor %}",
}
CONVERSATIONS = [
    [Message("user", "Will it snow in Larkhill?")],
    [
        Message("system", "Be brief."),
        Message("user", " ünï 雪 \n"),
        Message("assistant", "Yes."),
        Message("user", '"Why"?'),
    ],
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["llama", "mistral, window", "qwen2, yarn", "qwen3, biases"])
def test_every_family_continues_as_transformers_does(tmp_path: Path, name: str, settings: str) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", name.split(",")[0], seed=9, **MODELS[name])
    network = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    model = NativeCausal.open(write_kv_model(checkpoint, tmp_path / "kv"))

    compare(model, network, draw_prompts(300, 70), 12, SETTINGS[settings])


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_chat_has_the_ids_of_transformers(tmp_path: Path, template: str) -> None:
    write_causal_checkpoint(tmp_path / "checkpoint", "qwen2")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "checkpoint")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": "<s>"})
    tokenizer.chat_template = TEMPLATES[template]
    for save_jinja_files in (True, False):
        folder = tmp_path / str(save_jinja_files)
        tokenizer.save_pretrained(folder, save_jinja_files=save_jinja_files)
        found = ChatTemplate.open(folder)
        assert found is not None
        chat = ChatTokenizer(found, CausalTokenizer.open(folder))

        for messages in CONVERSATIONS:
            values = [{"role": one.role, "content": one.content} for one in messages]
            assert chat.encode(messages) == tokenizer.apply_chat_template(values, add_generation_prompt=True)


@pytest.mark.parametrize("template", SPECIAL)
def test_the_golden_chats_are_those_of_this_version(template: str) -> None:
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))["rendered"][template]
    tokenizer = open_tokenizer(FOLDER, template)

    assert {name: rendered(tokenizer, messages) for name, messages in GOLDEN_CONVERSATIONS.items()} == expected


@pytest.mark.parametrize("settings", [{}, {"add_bos_token": True}, {"add_bos_token": False}])
def test_a_prompt_begins_as_in_transformers(tmp_path: Path, settings: dict[str, Any]) -> None:
    write_causal_checkpoint(tmp_path, "qwen2")
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    fast.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    kinds = {"plain": fast, "bos": with_bos(fast)}
    for name, tokenizer in kinds.items():
        tokenizer.save_pretrained(tmp_path / name)
        again = transformers.AutoTokenizer.from_pretrained(tmp_path / name, **settings)
        again.save_pretrained(tmp_path / name)
        assert CausalTokenizer.open(tmp_path / name).encode_prompt("the rain") == again("the rain").input_ids


def with_bos(tokenizer: Any) -> Any:
    """The tokenizer with the post-processor of Llama 3."""
    from tokenizers.processors import ByteLevel, Sequence, TemplateProcessing

    copy = transformers.PreTrainedTokenizerFast(
        tokenizer_object=type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str()),
        bos_token="<s>", eos_token="</s>",
    )  # fmt: skip
    template = TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", copy.bos_token_id)]
    )
    copy.backend_tokenizer.post_processor = Sequence([ByteLevel(trim_offsets=False), template])
    return copy
