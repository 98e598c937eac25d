"""The language that a job translates into."""

from jobs.routing.language_pair import pair_of
from jobs.routing.routes import BETWEEN


def target_language_of(model: str, asked: str | None) -> str | None:
    """The language that the options ask for, else the one in the name of the (last) model; None: nothing says it."""
    pair = pair_of(model.split(BETWEEN)[-1])
    return asked or (pair[1] if pair else None)
