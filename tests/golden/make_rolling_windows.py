"""Record the windows of lm-evaluation-harness' rolling log-likelihood, for tests that run without it.

    pip install --no-deps lm_eval
    python tests/golden/make_rolling_windows.py

Writes `rolling_windows.json` beside this script: for documents and `max_length` of several sizes,
the context and the predicted tokens of each window, as positions in the document; -1 is the prefix
token before the document.
"""

import json
from importlib.metadata import version
from pathlib import Path

from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

GOLDEN = Path(__file__).with_name("rolling_windows.json")
LENGTHS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 64, 90]
MAX_LENGTHS = [1, 2, 3, 4, 7, 16, 33, 63]


def rolling_windows(length: int, max_length: int) -> list[list[int]]:
    """[first position of the context, first predicted position, end] of each window."""
    windows = map(make_disjoint_window, get_rolling_token_windows(list(range(length)), -1, max_length, 1))
    return [[context[0], predicted[0], predicted[-1] + 1] for context, predicted in windows]


def main() -> None:
    cases = [
        {"length": length, "max_length": max_length, "windows": rolling_windows(length, max_length)}
        for length in LENGTHS
        for max_length in MAX_LENGTHS
    ]
    content = {"lm_eval": version("lm_eval"), "cases": cases}
    GOLDEN.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
