"""The length that sequences may have in a job: what `--max-length` asks for, within what the model can read."""

from jobs.errors import SpecError
from worker.engine.causal.protocol import CausalModel


def sequence_limit(model: CausalModel, max_length: int | None) -> int:
    """Tokens of the longest sequence; `max_length` None: as many as the model reads. Raises SpecError for more."""
    if max_length is None:
        return model.max_positions
    if max_length > model.max_positions:
        raise SpecError(
            f"max_length is {max_length}, but the model takes at most {model.max_positions} tokens: lower --max-length"
        )
    return max_length
