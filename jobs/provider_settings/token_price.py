"""The price of a server's tokens."""

from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.number_ranges import Real

PRICES = Real(0, 1e9)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """The price of a million prompt tokens and of a million completion tokens, in any currency."""

    prompt: float
    completion: float

    @classmethod
    def parse(cls, text: str) -> "TokenPrice | None":
        """Parse `IN,OUT`, or one number for both; None for an empty text. Raises SpecError for anything else."""
        if not text.strip():
            return None
        try:
            prices = [PRICES.parse(part) for part in text.split(",")]
        except SpecError:
            prices = []
        if len(prices) not in (1, 2):
            raise SpecError(
                f"the price per million tokens is {text!r}; write one number, or two for prompt and completion tokens: "
                "0.15,0.60"
            )
        return cls(prices[0], prices[-1])

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost, in the same currency."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1e6
