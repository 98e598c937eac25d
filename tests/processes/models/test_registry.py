"""Finding models by name loads no engine."""

import subprocess
import sys

from tests.places import CHECKOUT


def test_looking_up_models_and_their_files_loads_neither_onnxruntime_nor_numpy():
    heavy = {"numpy", "onnxruntime", "sentencepiece"}
    code = (
        "import sys, worker.models.registry, worker.models.contents.present_files\n"
        "import worker.models.contents.required_files\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )

    seen = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert seen.stdout == "[]\n"
