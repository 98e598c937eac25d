"""Native graphs of tiny cross-encoders, written once."""

from pathlib import Path
from typing import Any

import pytest

from tests.cross_encoder_checkpoints import SETTINGS, write_cross_encoder_checkpoint
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


class TinyModels:
    """Checkpoints of `SETTINGS` by name, and the models that are made of them, each made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, Precision], Path] = {}

    def checkpoint(self, name: str) -> Path:
        folder = self._folder / "checkpoints" / name.replace(" ", "-")
        if not folder.exists():
            settings: dict[str, Any] = SETTINGS[name]
            write_cross_encoder_checkpoint(folder, seed=list(SETTINGS).index(name), **settings)
        return folder

    def model(self, name: str, precision: Precision = Precision.FP32) -> Path:
        if (name, precision) not in self._made:
            source = str(self.checkpoint(name))
            added = add_model(Request(source=source, precision=precision, name=f"m{len(self._made)}"), self._folder)
            self._made[name, precision] = Path(added.path)
        return self._made[name, precision]


@pytest.fixture(scope="package")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    return TinyModels(tmp_path_factory.mktemp("cross-encoders"))
