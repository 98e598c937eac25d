"""The name that a person probably meant by one that does not exist. Needs only the standard library."""

from collections.abc import Iterable

FORMERLY = {"error_message": "error"}  # columns of CSV and parquet until 0.2.0


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that resembles this one most; None: no name is similar enough (`cutoff`, of difflib)."""
    from difflib import get_close_matches  # loaded where something is wrong, and not by each command

    by_lower: dict[str, str] = {}
    for one in names:
        by_lower.setdefault(one.lower(), one)
    if (now := FORMERLY.get(name.lower())) in by_lower:
        return now
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def meant(name: str, names: Iterable[str]) -> str:
    """What an error adds to a name that does not exist: ` (did you mean jsonl?)`; empty where no name is near."""
    near = nearest(name, names)
    return f" (did you mean {near}?)" if near else ""
