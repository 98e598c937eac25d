"""A checkpoint of a bundled model, as the folder that the package carries."""

import shutil
import tempfile
from pathlib import Path

from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


def write_model(checkpoint: Path, out: Path, made_by: str) -> None:
    """Build the graphs of a checkpoint; what else lies in `out`, the model card, stays. `made_by`: for the manifest."""
    with tempfile.TemporaryDirectory() as scratch:
        request = Request(source=str(checkpoint), precision=Precision.FP32, name="model", made_by=made_by)
        added = add_model(request, Path(scratch))
        shutil.copytree(added.path, out, dirs_exist_ok=True)
