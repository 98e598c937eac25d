"""Models that several files of this folder read."""

from pathlib import Path
from typing import Any

import pytest

from bench.checkpoints.gguf_file import write_gguf
from tests.causal_checkpoints import write_causal_checkpoint
from worker.model_tools.add.add import Request, add_model

GGUF_FAMILIES = {"llama": {"tied": False}, "qwen2": {"kv_heads": 1}, "qwen3": {"head_size": 16, "kv_heads": 4}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, up to a minute and a half each: at the end one process would wait for another."""
    items.sort(key=lambda item: item.path.name != "test_real_weights.py")


@pytest.fixture(scope="session")
def gguf_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each family as graphs (`llama`) and as a GGUF file (`llama-f32`), and llama in Q8_0 and Q4_0."""
    root = tmp_path_factory.mktemp("llamacpp")
    for family, config in GGUF_FAMILIES.items():
        checkpoint = write_causal_checkpoint(root / f"tiny-{family}", family, ffn=64, **config)
        for precision in ("f32", "q8_0", "q4_0") if family == "llama" else ("f32",):
            write_gguf(checkpoint, root / f"{family}-{precision}.gguf", precision, pre="gpt-2")
            added(root, f"{family}-{precision}", keep_gguf=True)
        added(root, f"{family}-f32", name=family)
    return root / "models"


def added(root: Path, file: str, **options: Any) -> None:
    add_model(Request(source=str(root / f"{file}.gguf"), **options), root / "models")
