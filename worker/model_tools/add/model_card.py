"""
What the card of a checkpoint (README.md) says that its other files do not.

Knows: the cards of OPUS-MT. Does not know: graphs, how words are aligned.
"""

import re
from pathlib import Path

CARD = "README.md"
# The cards of the Helsinki-NLP/opus-mt models; `transformer` alone is a model without it.
_GUIDED = re.compile(r"^\W*model:\s*transformer(?:-\w+)*-align\b", re.MULTILINE)
_MAX_BYTES = 1 << 20


def has_guided_alignment(folder: Path) -> bool:
    """Whether the model in a folder was trained with Marian's `--guided-alignment`, by its card: `model:
    transformer-align`. So one head of cross-attention aligns words."""
    try:
        with (folder / CARD).open("rb") as card:
            return _GUIDED.search(card.read(_MAX_BYTES).decode("utf-8", "replace")) is not None
    except OSError:
        return False
