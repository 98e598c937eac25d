"""Add a checkpoint as `kvjobs models add` does, into a folder of your choice.

python -m bench.added CHECKPOINT FOLDER fp32|int8
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.added", description="Make a model from a checkpoint.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("precision", choices=[str(precision) for precision in Precision])
    options = parser.parse_args(arguments)
    options.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as scratch:
        request = Request(source=str(options.checkpoint), precision=Precision(options.precision), name="model")
        shutil.move(add_model(request, Path(scratch)).path, options.folder)


if __name__ == "__main__":
    main()
