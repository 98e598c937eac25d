"""The price of a server's tokens."""

import pytest

from jobs.errors import SpecError
from jobs.provider_settings.token_price import TokenPrice


def test_prompt_and_completion_have_a_price_each_or_the_same() -> None:
    assert TokenPrice.parse(" 0.15, 0.6") == TokenPrice(0.15, 0.6)
    assert TokenPrice.parse("2") == TokenPrice(2, 2)
    assert TokenPrice.parse(" ") is None
    assert TokenPrice(0.5, 2).cost(1_000_000, 250_000) == 1.0


@pytest.mark.parametrize("text", ["a", "1,2,3", "-1", "1,nan", "inf", "1;2", "1,", "[1, 2]"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="one number"):
        TokenPrice.parse(text)
