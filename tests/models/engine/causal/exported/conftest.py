from collections.abc import Iterator

import pytest

from tests.models.engine.causal.exported.layouts import LAYOUTS, MODELS, open_export


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of each layout, of which a model is open."""
    name = str(request.param)
    if name not in MODELS:
        MODELS[name] = open_export(tmp_path_factory.mktemp("model"), LAYOUTS[name])
    return name


@pytest.fixture(autouse=True, scope="package")
def closed() -> Iterator[None]:
    yield
    MODELS.clear()
