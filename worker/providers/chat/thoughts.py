"""What a chat model thinks before it answers, which is no part of a translation."""

import re

_THOUGHTS = re.compile(r"\A\s*(?:<think>)?(.*?)</think>", re.DOTALL)  # a template may hold the first tag itself


def without_thoughts(text: str, answer: str) -> tuple[str, bool]:
    """An answer without its <think> block, and whether it has one. `text` is what was translated: one that holds such
    tags itself keeps them."""
    if "think>" in text:
        return answer, False
    if found := _THOUGHTS.match(answer):
        return answer[found.end() :], True
    if answer.lstrip().startswith("<think>"):  # it came to no end
        return "", True
    return answer, False
