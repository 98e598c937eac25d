"""The name of a job, which commands take in place of its number."""

from jobs.errors import SpecError

MAX_LENGTH = 100


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
