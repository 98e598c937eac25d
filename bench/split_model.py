"""Split a model as `kvjobs models split` does, into a folder of your choice.

python -m bench.split_model MODEL FOLDER STAGES
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from worker.model_tools.split.split import SplitRequest, split_model


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.split_model", description="Split a model into stages.")
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stages", type=int)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as scratch:
        request = SplitRequest(model=str(options.model), stages=options.stages, name="split")
        shutil.move(split_model(request, Path(scratch)).path, options.folder)


if __name__ == "__main__":
    main()
