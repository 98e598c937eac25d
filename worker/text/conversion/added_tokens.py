"""
The special and the added tokens of an older tokenizer, as transformers 4.57 adds them to its vocabulary
(tokenization_utils_base.py, `_from_pretrained`; tokenization_utils_fast.py, `__init__`).

    special     named by tokenizer_config.json, before it special_tokens_map.json where there is no
                `added_tokens_decoder`; those that no file mentions, by the tokenizer class
    added       `added_tokens_decoder` in tokenizer_config.json, else added_tokens.json

Knows: these files. Does not know: vocabularies, what special tokens are for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from worker.text.tokenizer_files import UnknownVocabularyError, read_object

# Roles in the order in which tokens that the vocabulary lacks get ids.
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MORE = "additional_special_tokens"
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_CONFIG, _MAP, _LEGACY = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token, and how texts are searched for it. `normalized` None: True unless the token is special."""

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    @classmethod
    def of(cls, value: Mapping[str, Any], where: str) -> Self:
        """The token in a JSON object. Raises ModelError for an object of another form."""
        values = {key: flag for key, flag in value.items() if key not in ("__type", "id")}
        content = values.pop("content", None)
        if not (
            isinstance(content, str) and {*values} <= {*_FLAGS} and all(type(flag) is bool for flag in values.values())
        ):
            raise ModelError(f"{where} has an added token of an unknown form ({value!r:.80}): download it again")
        return cls(content, **values)

    def numbered(self, token_id: int) -> dict[str, Any]:
        """The entry in `added_tokens` of a tokenizer.json."""
        normalized = not self.special if self.normalized is None else self.normalized
        return {"id": token_id, "content": self.content} | {
            name: normalized if name == "normalized" else getattr(self, name) for name in _FLAGS
        }


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens of a tokenizer class."""

    names: Mapping[str, str]  # by role, where no file names them
    forms: Mapping[str, AddedToken] = field(default_factory=dict)  # by role, flags of a token given by name


@dataclass(frozen=True, slots=True)
class NamedTokens:
    """The special and added tokens that a tokenizer's files declare."""

    special: tuple[AddedToken | str, ...]  # in the order of ROLES; a str where the files give only the name
    roles: Mapping[str, str]  # role -> content
    added: Mapping[int, AddedToken]  # by the id that a file gives

    def entries(self, pieces: Mapping[str, int]) -> list[dict[str, Any]]:
        """`added_tokens` of the tokenizer.json, by id. `pieces`: the pieces of the model, whose ids leave no gap.

        A token that is no piece gets the next id. Raises UnknownVocabularyError where a file gives it another.
        """
        special = {_content(token) for token in self.special}
        entries: dict[str, dict[str, Any]] = {}

        def put(token: AddedToken) -> int:
            token_id = entries.get(token.content, {}).get("id")
            if token_id is None:
                new = len(pieces) + sum(entry["id"] >= len(pieces) for entry in entries.values())
                token_id = pieces.get(token.content, new)
            entries[token.content] = token.numbered(token_id)
            return int(token_id)

        for named_id, token in sorted(self.added.items()):
            given_id = put(replace(token, special=token.special or token.content in special))
            if given_id != named_id:
                raise UnknownVocabularyError(
                    f"the tokenizer's files give the added token {token.content!r:.40} the id {named_id}, and "
                    f"transformers gives it {given_id}"
                )
        for special_token in self.special:
            if isinstance(special_token, AddedToken):
                put(replace(special_token, special=True))
            elif special_token not in entries:
                put(AddedToken(special_token, special=True))
        return sorted(entries.values(), key=lambda entry: int(entry["id"]))


def named_tokens(folder: Path, config: Mapping[str, Any], of_class: SpecialTokens) -> NamedTokens:
    """Read the files. `config`: tokenizer_config.json. Raises ModelError for a damaged file, UnknownVocabularyError for
    a setting whose effect is not known."""
    if config.get("extra_special_tokens"):
        raise UnknownVocabularyError(f"{folder / _CONFIG} has special tokens of its own (extra_special_tokens)")
    named = {key: _of_config(folder, config[key]) for key in ROLES if key in config}
    more = [token for entry in _list(folder / _CONFIG, config.get(_MORE)) if (token := _of_config(folder, entry))]
    if "added_tokens_decoder" in config:
        added = _declared(folder, config["added_tokens_decoder"])
        by_content = {token.content: token for token in added.values()}
        named = {key: token and by_content.get(_content(token), token) for key, token in named.items()}
    else:
        file, legacy = folder / _MAP, read_object(folder / _MAP, is_optional=True)
        named |= {key: _of_map(file, legacy[key]) for key in ROLES if key in legacy}
        known = [_content(token) for token in more]
        of_map = [token for entry in _list(file, legacy.get(_MORE)) if (token := _of_map(file, entry))]
        more += [token for token in of_map if _content(token) not in known]
        added = _legacy(folder, {_content(token) for token in (*named.values(), *more) if token})
    tokens = {key: named[key] if key in named else of_class.names.get(key) for key in ROLES}
    formed = {key: _formed(token, of_class.forms.get(key)) for key, token in tokens.items() if token}
    special: dict[str, AddedToken | str] = {}
    for token in (*formed.values(), *more):
        special.setdefault(_content(token), token)
    return NamedTokens(tuple(special.values()), {key: _content(token) for key, token in formed.items()}, added)


def _formed(token: AddedToken | str, form: AddedToken | None) -> AddedToken | str:
    return replace(form, content=token) if form is not None and isinstance(token, str) else token


def _of_config(folder: Path, value: Any) -> AddedToken | str | None:
    """A token in tokenizer_config.json; transformers reads objects of a type alone."""
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, dict) and value.get("__type") == "AddedToken":
        return AddedToken.of(value, str(folder / _CONFIG))
    raise ModelError(f"{folder / _CONFIG} names a special token in an unknown form ({value!r:.80}): download it again")


def _of_map(file: Path, value: Any) -> AddedToken | str | None:
    """A token in special_tokens_map.json."""
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, dict):
        return AddedToken.of(value | {"special": True}, str(file))
    raise ModelError(f"{file} names a special token in an unknown form ({value!r:.80}): download it again")


def _declared(folder: Path, listed: Any) -> dict[int, AddedToken]:
    file = folder / _CONFIG
    if not isinstance(listed, dict) or not all(
        number.isdecimal() and isinstance(token, dict) for number, token in listed.items()
    ):
        raise ModelError(f"{file} has added_tokens_decoder of an unknown form: download it again")
    return {int(number): AddedToken.of(token, str(file)) for number, token in listed.items()}


def _legacy(folder: Path, special: set[str]) -> dict[int, AddedToken]:
    file = folder / _LEGACY
    listed = read_object(file, is_optional=True)
    if not all(content and type(number) is int and number >= 0 for content, number in listed.items()):
        raise ModelError(f"{file} gives tokens ids that are no numbers: download it again")
    if len({*listed.values()}) != len(listed):
        raise ModelError(f"{file} gives two tokens the same id: download it again")
    return {
        number: AddedToken(content, normalized=content not in special, special=content in special)
        for content, number in listed.items()
    }


def _list(file: Path, value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise ModelError(f"{file} has {_MORE} that are no list: download it again")
    return value or []


def _content(token: AddedToken | str) -> str:
    return token.content if isinstance(token, AddedToken) else str(token)
