"""The values of settings: read from what was written, and checked. Does not know: where they were written."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jobs.errors import SpecError
from jobs.number_ranges import POSITIVE_SECONDS, Real, Whole, read_size
from jobs.provider_settings.counterparts import read_counterparts
from jobs.provider_settings.server_address import api_key, ollama_url, openai_url
from jobs.provider_settings.task_orders import read_orders
from jobs.provider_settings.token_price import TokenPrice
from jobs.routing.table import read_table
from jobs.webhook_address import read_webhook_secret, read_webhook_url

MOST_LANES = 4096
# What the settings that are numbers may be.
NUMBERS: Mapping[str, Whole | Real] = {
    "lanes": Whole(0, MOST_LANES, "0: one per core"),
    "lease_s": POSITIVE_SECONDS,
    "heartbeat_s": POSITIVE_SECONDS,
    "poll_s": POSITIVE_SECONDS,
    "hang_s": POSITIVE_SECONDS,
    "busy_timeout_s": Real(0, 1_000_000),  # SQLite counts milliseconds in 32 bits
    "openai_concurrency": Whole(1, 1000),
    "openai_timeout_s": POSITIVE_SECONDS,
    "openai_attempts": Whole(1, 1000),
    "ollama_concurrency": Whole(1, 1000),
    "ollama_timeout_s": POSITIVE_SECONDS,
    "llamacpp_context": Whole(0, why="tokens; 0: the model's own"),
    "warm_models": Whole(1, 1000),
}
TEMPLATE_FIELDS = ("text", "source", "target")


def cast_value(name: str, kind: Any, value: Any, source: str) -> Any:
    """The value of a setting, as text or as TOML has it. `kind`: the type of its field; `source`: for the message of
    SpecError, which an invalid one raises."""
    if name in NUMBERS:
        return checked_number(name, f"{source}: {name}", value)
    if read := _READERS.get(name):
        try:
            return read(value)
        except SpecError as error:
            raise SpecError(f"{source}: {name}: {error}") from None
    try:
        return Path(value).expanduser().absolute() if kind is Path else kind(value)
    except (TypeError, ValueError):
        raise SpecError(f"{source}: {name} is {value!r}, which is not a path") from None


def checked_number(name: str, named: str, value: Any) -> float:
    """A number within the bounds of its setting; `named`: in the message. Raises SpecError."""
    numbers = NUMBERS[name]
    try:
        return numbers.parse(value) if isinstance(value, str) else numbers.check(value)
    except SpecError as error:
        raise SpecError(f"{named}: {error}") from None


def _text(read: Callable[[str], str]) -> Callable[[Any], str]:
    """A reader that takes texts alone, and for an empty one is not asked."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise SpecError("it is not a text; write it in quotation marks")
        return read(value) if value.strip() else ""

    return check


def _price(value: Any) -> str:
    TokenPrice.parse(str(value))
    return str(value)


def _size(value: Any) -> str:
    read_size(value)
    return str(value)


def _template(value: str) -> str:
    unknown = sorted(set(re.findall(r"\{(\w+)\}", value)) - set(TEMPLATE_FIELDS))
    if "{text}" not in value or unknown:
        why = f"has {{{unknown[0]}}}" if unknown else "lacks {text}"
        raise SpecError(f"the prompt {why}; it contains {{text}}, and may contain {{source}} and {{target}}")
    return value


def _keep_alive(value: Any) -> str:
    """A duration as Ollama reads it; a number alone is seconds."""
    text = str(value).strip()
    if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return f"{text}s"
    if not re.fullmatch(r"-?([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|ms|s|m|h))+", text):
        raise SpecError(f"{text!r} is not a duration; write 5m, 1h30m, or a number of seconds")
    return text


def _yes_or_no(value: Any) -> bool:
    if (text := str(value).strip().lower()) in ("yes", "true", "1"):
        return True
    if text in ("no", "false", "0"):
        return False
    raise SpecError(f"{value!r} is neither yes nor no")


# Of the settings that are more than a text or a number: they raise SpecError without the names of setting and source.
_READERS: Mapping[str, Callable[[Any], str | bool]] = {
    "notify_url": _text(read_webhook_url),
    "notify_secret": _text(read_webhook_secret),
    "notify_private": _yes_or_no,
    "max_upload": _size,
    "providers": read_orders,
    "counterparts": read_counterparts,
    "routes": read_table,
    "openai_base_url": _text(openai_url),
    "openai_api_key": _text(api_key),
    "openai_price_per_million": _price,
    "openai_template": _text(_template),
    "ollama_host": _text(ollama_url),
    "ollama_keep_alive": _keep_alive,
    "ollama_template": _text(_template),
}
