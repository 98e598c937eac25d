"""A chat template is a program that somebody else wrote: it may do little, and not for long."""

from pathlib import Path

import pytest

from jobs.corpus.messages import Message
from jobs.errors import ModelError
from worker.text import template_environment
from worker.text.chat_template import ChatTemplate

MESSAGES = [Message("user", "Hi. ")] * 3

HOSTILE = {
    "nested loops": "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
    "a filtered loop in a loop": (
        "{% for a in range(100000) %}{% for b in range(100000) if b < 0 %}{% endfor %}{% endfor %}"
    ),
    "a filter in a loop": "{% for a in range(100000) %}{{ range(100000)|sum }}{% endfor %}",
    "a loop that calls itself": (
        "{% for a in [1, 2] recursive %}{% if loop.depth < 40 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}"
    ),
    "a macro that calls itself": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}"
    ),
    "many filters": "{{ range(100000)|list|sort|sum }}" * 500,
    "a text that doubles by +": (
        "{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
    ),
    "a text that doubles by ~": (
        "{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
    ),
    "a long text": "{% set x %}{% for a in range(99999) %}{{ 'x' * 100000 }}{% endfor %}{% endset %}",
    "a long output": "{% for a in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
    "a product": "{{ 'x' * 100000000000 }}",
    "a product of a list": "{{ [1] * 100000000000 }}",
    "a power": "{{ 10 ** 10000000 }}",
    "a large number": "{% set ns = namespace(x=3) %}{% for a in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "a filter with a count": "{{ [1]|batch(10000000000, 0)|list }}",
    "a method with a width": "{{ 'x'.center(10000000000) }}",
    "a filter of a constant": "{{ 'x'|center(10000000000) }}",
    "filler sentences": "{{ lipsum(n=1000000000) }}",
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate.of(Path("chat_template.jinja"), source, {"bos_token": "<s>"})


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_no_template_keeps_a_worker_busy(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised while it is compiled, or when it is rendered; a thread has no other way out."""
    monkeypatch.setattr(template_environment, "MAX_CPU_S", 0.2)
    monkeypatch.setattr(template_environment, "MAX_STEPS", 20_000)
    with pytest.raises(ModelError):
        template(source).render(MESSAGES)


def test_what_it_took_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_environment, "MAX_STEPS", 2_000)
    with pytest.raises(ModelError, match=r"chat_template\.jinja.* 2,000 "):
        template(HOSTILE["nested loops"]).render(MESSAGES)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ loop.index ~ m.content + loop.length|string }}{% endfor %}", "1Hi. 32Hi. 33Hi. 3"),
        ("{% for m in messages %}{% if loop.last %}{{ bos_token ~ m.content|trim }}{% endif %}{% endfor %}", "<s>Hi."),
        ("{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "user"),
        ("{% for a in [1, [2, [3]]] recursive %}{{ a if a is number else loop(a) }}{% endfor %}", "123"),
        ("{% macro f(n) %}{{ n ~ (f(n - 1) if n else '') }}{% endmacro %}{{ f(3) }}", "3210"),
        ("{% for n in [] %}x{% else %}none{% endfor %}{{ '=' * 3 ~ 2 ** 10 }}{{ 1 + 2.5 }}", "none===10243.5"),
        (
            "{{ messages|map(attribute='role')|join(',') }}{{ {'a': 1}|tojson(indent=1) }}",
            'user,user,user{\n "a": 1\n}',
        ),
        ("{{ none ~ missing ~ true }}", "NoneTrue"),
    ],
)
def test_templates_give_what_jinja_gives(source: str, expected: str) -> None:
    assert template(source).render(MESSAGES) == expected


def test_a_long_conversation_has_room() -> None:
    """Also in a template that looks through all messages at each of them."""
    source = "{% for m in messages %}{% for n in messages %}{% endfor %}{{ m.content }}{% endfor %}"

    assert template(source).render([Message("user", "Hi. ")] * 900) == "Hi. " * 900


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content FILTER }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize(
    ("how", "beginning", "expected"),
    [("", "The answer is", "The answer is"), ("", "is: ", "is: "), ("| trim", "is: ", "is:"), ("", "im", "im")],
    ids=["as it is", "with a space", "trimmed", "as in the mark of the end"],
)
def test_an_answer_that_has_begun_is_continued(how: str, beginning: str, expected: str) -> None:
    """The prompts of transformers with `continue_final_message`."""
    rendered = template(CHATML.replace("FILTER", how)).render([Message("user", "Hi"), Message("assistant", beginning)])

    assert rendered == f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{expected}"


def test_an_answer_that_the_template_leaves_out_cannot_be_continued() -> None:
    with pytest.raises(ModelError, match=r"leaves out .*assistant"):
        template("{{ messages[0].content }}").render([Message("user", "Hi"), Message("assistant", "Oh")])


@pytest.mark.parametrize("source", ["{{ messages.append(1) }}", "{{ ''.__class__.x }}", "{{ open('/etc/passwd') }}"])
def test_a_template_sees_its_messages_alone(source: str) -> None:
    with pytest.raises(ModelError):
        template(source).render(MESSAGES)
