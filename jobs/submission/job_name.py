"""The name of a job, which commands take in place of its number; and the key that a producer names it by."""

import hashlib
import json

from jobs.errors import SpecError

MAX_LENGTH = 100
MAX_KEY = 255


def check_name(name: str | None) -> None:
    """Raise SpecError for a name that cannot be used in place of a job's number."""
    if name is None:
        return
    if not name or not name.isprintable() or name != name.strip() or len(name) > MAX_LENGTH:
        raise SpecError(f"the name {name[:MAX_LENGTH]!r} cannot be used; give 1 to {MAX_LENGTH} printable characters")
    if name.isdecimal() or name == "last" or name.startswith("-"):
        raise SpecError(
            f"the name {name!r} would be taken for something else (a job's number, the last job, an option); "
            "choose another with --name"
        )


def key_digest(kind: str, key: str, owner: str | None) -> str:
    """What identifies a job that its producer names. A token has keys of its own, so that nobody else's job answers
    its request; users of a machine (`user@host`) have theirs together. `kind`: keys of open jobs are others."""
    of_token = [] if owner is None or "@" in owner else [owner]
    return hashlib.sha256(json.dumps([kind, key, *of_token]).encode()).hexdigest()


def check_key(key: str | None) -> None:
    """Raise SpecError for a key that cannot name a job in place of its corpus."""
    if key is not None and not (key.strip() and key.isprintable() and len(key) <= MAX_KEY):
        raise SpecError(f"the key {key[:MAX_LENGTH]!r} cannot be used; give 1 to {MAX_KEY} printable characters")
