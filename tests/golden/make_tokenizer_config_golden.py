"""Record how transformers tokenizes with a tokenizer.json that other files change, for tests without transformers.

    python tests/golden/make_tokenizer_config_golden.py

Writes `tokenizer_config.json` beside this script: the ids of each text, for each case of tests/tokenizer_configs.py.
Special tokens in a text are read as plain text (`split_special_tokens`).
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import tokenizers
import transformers

from tests.tokenizer_configs import CASES, TEXTS, write_case

GOLDEN = Path(__file__).with_name("tokenizer_config.json")


def ids_of(folder: Path) -> list[list[int]]:
    """The ids of each text in transformers."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] for text in TEXTS]


def main() -> None:
    """Write the file."""
    ids = {}
    for number, name in enumerate(CASES):
        with tempfile.TemporaryDirectory() as folder:
            ids[name] = ids_of(write_case(Path(folder) / str(number), name))
    versions = {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__}
    lines = [f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in ids.items()]
    GOLDEN.write_text(
        f'{{"versions": {json.dumps(versions)}, "ids": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
