"""`jobs` calls `worker` through one typed module, and never by a name that import-linter cannot see."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobs
from jobs import worker_port
from jobs.cli.main import COMMANDS

FOLDER = Path(jobs.__file__).parent
IMPORTERS = {"import_module", "__import__", "run_module", "spec_from_file_location"}
WORKER_MODULE = re.compile(r"worker(\.\w+)+(:\w+)?")


@pytest.mark.parametrize(
    "source",
    ["importlib.import_module(name)", "__import__('numpy')", "a = ['-m', 'worker.lane']", "Entry('worker.cli.x:x')"],
)
def test_an_import_that_bypasses_the_port_is_detected(source: str) -> None:
    assert list(bypasses(ast.parse(source)))


def test_only_the_port_imports_by_name_or_contains_the_name_of_a_worker_module() -> None:
    found = {
        f"{path.relative_to(FOLDER)}:{line}"
        for path in FOLDER.rglob("*.py")
        if path != Path(worker_port.__file__)
        for line in bypasses(ast.parse(path.read_text(encoding="utf-8")))
    }

    assert not found, "only jobs/worker_port.py may reach worker"


def test_the_modules_that_the_port_names_exist() -> None:
    targets = [worker_port.PORT, worker_port.EMBEDDED_WORKER, *worker_port.COMMANDS.values()]

    assert all(importlib.util.find_spec(target.partition(":")[0]) for target in targets)
    assert worker_port.COMMANDS.keys() <= COMMANDS.keys()


def bypasses(tree: ast.AST) -> Iterator[int]:
    """Numbers of the lines that import by name, or that contain the name of a module of `worker`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in IMPORTERS:
                yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and WORKER_MODULE.fullmatch(node.value):
            yield node.lineno
