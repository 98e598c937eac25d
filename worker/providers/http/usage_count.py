"""What the requests of a batch used at a server, as the server counts it."""

from dataclasses import dataclass
from typing import Self

from jobs.provider_settings.token_price import TokenPrice
from jobs.providers import Usage


@dataclass(slots=True)
class UsageCount:
    """The requests that were answered and their tokens, also of answers that are thrown away: they are paid for."""

    provider: str
    price: TokenPrice | None = None  # None: they cost nothing
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count one answer."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def add_up(self, other: Self) -> None:
        """Add what another count has."""
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens

    def total(self) -> Usage:
        """What a batch records; its cost is in the currency of the price."""
        cost = self.price.cost(self.prompt_tokens, self.completion_tokens) if self.price else 0.0
        return Usage(self.provider, self.requests, self.prompt_tokens, self.completion_tokens, cost)
