"""Corpora of the tests of `kvjobs submit`."""

import json
from pathlib import Path


def corpus_of(path: Path, *texts: str | None) -> Path:
    """One document per text; None gives a line that cannot be read."""
    lines = ("{" if text is None else json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
