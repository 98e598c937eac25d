"""Every example of docs/python.md runs, one after the other."""

import re
from collections.abc import Iterator

import pytest

from kvjobs import Client, one_call
from tests.machine import Machine
from tests.places import CHECKOUT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def own_client() -> Iterator[None]:
    """The client of calls without one, of this test's home alone."""
    one_call.own_client.cache_clear()
    yield
    one_call.own_client().close()
    one_call.own_client.cache_clear()


def test_the_examples_run(machine: Machine, worker: None, own_client: None) -> None:
    pytest.importorskip("pyarrow")
    text = (CHECKOUT / "docs/python.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    names: dict[str, object] = {}
    try:
        for number, block in enumerate(blocks, start=1):
            exec(compile(block, f"docs/python.md, example {number}", "exec"), names)
    finally:
        if isinstance(client := names.get("kv"), Client):
            client.close()

    assert len(blocks) > 3
    assert (machine.folder / "weather.parquet").stat().st_size > 0
