"""Write unseen bulletins as a corpus.

    python -m tools.demo.examples --documents 60 --out examples/bulletins.jsonl
    python -m tools.demo.examples --documents 2000 --references --out bulletins.jsonl

The same options give the same bytes on every machine. No sentence of these documents was used for training.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tools.demo.grammar import unseen_bulletins
from tools.demo.script_parser import script_parser

FIRST_ISSUE = datetime(2026, 1, 1, 6, tzinfo=UTC)
ISSUED_EVERY = timedelta(hours=6)


def main() -> None:
    parser = script_parser("examples", __doc__)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--references", action="store_true", help="add each document's Chinese, without spaces")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl file")
    options = parser.parse_args()
    with options.out.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines(options.documents, options.seed, options.references))


def lines(count: int, seed: int, references: bool) -> Iterator[str]:
    """The lines of a JSON Lines file; `lang`, `station` and `issued` are fields that jobs pass through."""
    for number, bulletin in enumerate(unseen_bulletins(count, seed), start=1):
        record: dict[str, Any] = {
            "id": f"bulletin-{number:04d}",
            "lang": "en",
            "station": bulletin.station,
            "issued": (FIRST_ISSUE + (number - 1) * ISSUED_EVERY).isoformat(),
            "text": bulletin.english,
        }
        if references:
            record["reference"] = bulletin.chinese
        yield json.dumps(record, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
