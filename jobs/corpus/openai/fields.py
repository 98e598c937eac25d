"""
The fields of a request's body: those that are read, and those that may be there because they change nothing.

A field that asks for what kvjobs does not do is a problem that names the field; so is a field that nobody knows. What
is null is not given. A number is what its digits say, however the line writes it.

Knows: names and values. Does not know: what is made of a prompt.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson

from jobs.corpus.openai.request_kind import RequestKind
from jobs.corpus.own_options import with_own
from jobs.documents import Problem, Reject, kind_of, quoted
from jobs.errors import SpecError, meant
from jobs.tasks.generate import GenerateOptions
from jobs.text.json_numbers import digits, is_integer

Allowed = Callable[[Any], bool]


def _is_one_of(*values: Any) -> Allowed:
    """Whether a field has one of these values: True is not 1."""
    return lambda value: any(value == known and isinstance(value, bool) is isinstance(known, bool) for known in values)


def _anything(_value: Any) -> bool:
    return True


_NOTHING, _OFF, _ON = _is_one_of([], {}, ""), _is_one_of(False), _is_one_of(True)
# By field, the values that change nothing here. Those of OpenAI, then those of vLLM.
HARMLESS: Mapping[str, Allowed] = {
    **dict.fromkeys(("user", "metadata", "store", "service_tier", "safety_identifier"), _anything),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"), _anything),
    **dict.fromkeys(("n", "best_of"), _is_one_of(1)),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), _is_one_of(0)),
    "logit_bias": _NOTHING,
    "stream": _OFF,
    "stream_options": _NOTHING,
    **dict.fromkeys(("tools", "functions"), _NOTHING),
    **dict.fromkeys(("tool_choice", "function_call"), _is_one_of("none", "auto")),
    "response_format": _is_one_of({"type": "text"}),
    "modalities": _is_one_of(["text"]),
    "suffix": _NOTHING,
    "repetition_penalty": _is_one_of(1),
    "length_penalty": _is_one_of(1),
    **dict.fromkeys(("min_p", "min_tokens", "priority"), _is_one_of(0)),
    **dict.fromkeys(("ignore_eos", "use_beam_search", "include_stop_str_in_output"), _OFF),
    **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), _ON),
    **dict.fromkeys(("stop_token_ids", "bad_words", "chat_template_kwargs"), _NOTHING),
}
_OF_CHAT: Mapping[str, Allowed] = {
    "logprobs": _OFF,
    "top_logprobs": _is_one_of(0),
    "add_generation_prompt": _ON,
    "continue_final_message": _OFF,
}
_OF_COMPLETIONS: Mapping[str, Allowed] = {"echo": _OFF}
_SAMPLING = ("temperature", "top_p", "top_k", "seed")
_LENGTHS = ("max_completion_tokens", "max_tokens")  # the newer name first
# Read by `request_payloads`, or what the answer is made of.
_TEXTS: Mapping[RequestKind, tuple[str, ...]] = {
    RequestKind.CHAT: ("messages",),
    RequestKind.TRANSLATION: ("messages",),
    RequestKind.COMPLETION: ("prompt",),
    RequestKind.ECHO: ("prompt", "echo", "logprobs"),
    RequestKind.RERANK: ("query", "documents", "top_n", "return_documents"),
    RequestKind.SCORE: ("text_1", "text_2"),
}
_MOST_SEED = 2**63 - 1


def check_fields(body: Mapping[str, Any], kind: RequestKind) -> Problem | None:
    """The first field of a body that asks for what is not done, if there is one."""
    known, harmless = _fields_of(kind)
    for name, value in body.items():
        if name in known or value is None:
            continue
        allowed = harmless.get(name)
        if allowed is None or not allowed(plain(value)):
            return _not_done(name, value, kind, {*known, *harmless}, is_known=allowed is not None)
    return None


@functools.cache
def _fields_of(kind: RequestKind) -> tuple[frozenset[str], Mapping[str, Allowed]]:
    """The fields that are read, and by name those that may be there."""
    known = {"model", *_TEXTS[kind]}
    harmless = {**HARMLESS, **(_OF_CHAT if kind.is_chat else _OF_COMPLETIONS)}
    if kind.generates:
        known |= {*_SAMPLING, *_LENGTHS, "stop"}
    else:  # nothing is drawn: what translates takes the most likely tokens
        harmless |= {**dict.fromkeys(("temperature", "top_k"), _is_one_of(0)), "top_p": _anything, "seed": _anything}
        harmless |= {"stop": _NOTHING}
    if kind is RequestKind.TRANSLATION:
        known |= {*_LENGTHS}
    elif kind is RequestKind.ECHO:
        harmless |= dict.fromkeys(_LENGTHS, _is_one_of(0))
    return frozenset(known), harmless


def own_options(body: Mapping[str, Any], number: int, options: GenerateOptions) -> dict[str, Any] | Problem:
    """The options of one request to generate, by the names of `GenerateOptions`: those that its body gives. `number`:
    the seed of a request whose tokens are drawn and that gives none, so that equal prompts get different answers, and
    each the same one again."""
    given = {name: plain(body[name]) for name in (*_SAMPLING, *_LENGTHS, "stop") if body.get(name) is not None}
    if given.get("top_k") == -1:  # vLLM's word for it
        given["top_k"] = 0
    if type(given.get("seed")) is int:
        given["seed"] &= _MOST_SEED  # OpenAI takes negative ones
    if type(given.get("stop")) is str:
        given["stop"] = [given["stop"]]
    for name, value in given.items():
        if (problem := _check(name, value)) is not None:
            return problem
    own = _sampling(given, number, options.temperature)
    if (length := next((given[name] for name in _LENGTHS if name in given), None)) is not None:
        own["max_new_tokens"] = length
    if given.get("stop"):
        own["stop"] = given["stop"]
    try:
        with_own(options, own)
    except SpecError as error:
        return Problem(Reject.BAD_REQUEST, f"body: {error}")
    return own


def plain(value: Any) -> Any:
    """A value of a line whose number is a number, also where the line writes it in a way that orjson would change."""
    if type(value) is not orjson.Fragment:
        return value
    written = digits(value)
    return int(written) if is_integer(written) else float(written)


def problem_of(name: str, what: str) -> Problem:
    """Why a field cannot be done: the sentence begins with its name, which is OpenAI's `param`."""
    return Problem(Reject.BAD_REQUEST, f"{name}: {what}")


def written(value: Any) -> str:
    """A value as JSON, for a message."""
    return quoted(value) if isinstance(value, str) else quoted(orjson.dumps(value, default=str).decode(), 40)[1:-1]


def _sampling(given: Mapping[str, Any], number: int, default: float) -> dict[str, Any]:
    """The options of sampling. `top_p` without a temperature is of OpenAI's default, 1; `default`: the temperature of
    the job, for a request without either."""
    seed, top_p, top_k = given.get("seed", number), given.get("top_p", 1), given.get("top_k", 0)
    if not {"temperature", "top_p", "top_k"} & given.keys():
        return {"seed": seed} if default else {}
    temperature = given.get("temperature", 1 if top_p < 1 or top_k else 0)
    if not temperature:
        return {"temperature": 0, "top_p": 1, "top_k": 0}  # the others choose among tokens that are drawn
    return {"temperature": temperature, "top_p": top_p, "top_k": top_k, "seed": seed}


def _check(field: str, value: Any) -> Problem | None:
    """What is wrong with the value of a field that gives an option."""
    if field == "stop":
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            return problem_of(field, "it is no text, and no list of texts")
    elif isinstance(value, bool) or not isinstance(value, _KINDS.get(field, (int,))):
        whole = "a number" if field in _KINDS else "a whole number"
        return problem_of(field, f"it is {kind_of(value)}, and not {whole}")
    try:
        with_own(_DRAWING, {"max_new_tokens" if field in _LENGTHS else field: value})
    except SpecError as error:
        return problem_of(field, str(error))
    return None


_KINDS: Mapping[str, tuple[type, ...]] = dict.fromkeys(("temperature", "top_p"), (int, float))
_DRAWING = GenerateOptions(temperature=1)


def _not_done(name: str, value: Any, kind: RequestKind, known: Collection[str], *, is_known: bool) -> Problem:
    if not is_known:
        if name in _OF_OTHERS:
            return problem_of(name, f"a request for {kind.endpoint} has no such field here; leave it out")
        return problem_of(name, f"this field is not known here{meant(name, known)}; leave it out")
    shown = written(value)
    if name in ("max_tokens", "max_completion_tokens"):
        return problem_of(name, "with echo, no text is generated: it is 0 or left out")
    return problem_of(name, f"kvjobs does not do {name} = {shown}; leave it out")


_OF_OTHERS = frozenset({*_SAMPLING, *_LENGTHS, "stop", "logprobs", "top_logprobs", "messages", "prompt"})
