"""Build the folder of a bundled model, which is part of the package, from its checkpoint."""

import shutil
import tempfile
from pathlib import Path

from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


def write_model(checkpoint: Path, out: Path, made_by: str) -> None:
    """Write graphs and manifest to `out`; its model card stays. `made_by`: the source in the manifest."""
    with tempfile.TemporaryDirectory() as scratch:
        request = Request(source=str(checkpoint), precision=Precision.FP32, name="model", made_by=made_by)
        added = add_model(request, Path(scratch))
        shutil.copytree(added.path, out, dirs_exist_ok=True)
