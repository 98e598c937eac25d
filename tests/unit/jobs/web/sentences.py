"""What a sentence of a page says: its facts, in any words."""


def missing(sentence: str, *facts: str) -> list[str]:
    """The facts that it does not say."""
    return [fact for fact in facts if fact not in sentence]
