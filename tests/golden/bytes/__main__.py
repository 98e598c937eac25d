"""Makes the digests anew, or writes the outputs: see `tests.golden.bytes`."""

import argparse
import tempfile
from pathlib import Path

from tests.databases import BOTH
from tests.golden.bytes.digests import STORED, make_outputs, store_digests, write_outputs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.bytes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make", help=f"the expected digests anew, on both databases: {STORED.name}")
    write = commands.add_parser("write", help="the outputs themselves, to compare two commits with diff -r")
    write.add_argument("folder", type=Path)
    write.add_argument("--database", choices=BOTH, default=BOTH[0])
    arguments = parser.parse_args()
    if arguments.command == "make":
        store_digests({dialect: _made(dialect) for dialect in BOTH})
    else:
        write_outputs(_made(arguments.database), arguments.folder.absolute())


def _made(dialect: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as home:
        return make_outputs(dialect, Path(home))


if __name__ == "__main__":
    main()
