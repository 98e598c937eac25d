"""The rules of the layers: a unit test that breaks one fails, even if the code under test catches the error."""

import contextlib
import multiprocessing
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import psycopg
import pytest
from sqlalchemy import create_engine

from tests.layers import FORBIDDEN, Forbidden, layer_of, rules_of
from tests.places import GOLDEN, TESTS

ACTIONS: dict[str, Callable[[], object]] = {
    "process": lambda: subprocess.run(["true"]),
    "socket": lambda: socket.create_server(("127.0.0.1", 0)),
    "sleep": lambda: time.sleep(0),
    "sqlite": lambda: sqlite3.connect(":memory:"),
    "multiprocessing": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "psycopg": lambda: psycopg.connect("host=127.0.0.1 port=1"),
    "postgresql": lambda: create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none").connect(),
    "session": lambda: onnxruntime.InferenceSession(str(GOLDEN / "tiny-swish-tied" / "encoder_model.onnx")),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_unit_test_that_breaks_a_rule_fails_though_the_error_is_caught(action: str) -> None:
    with pytest.raises(Forbidden, match="tests/unit may not"), rules_of("unit"), contextlib.suppress(Exception):
        ACTIONS[action]()


def test_a_thread_of_a_test_is_checked_too() -> None:
    def connect() -> None:
        with contextlib.suppress(Forbidden):
            socket.socket()

    def run_a_thread() -> None:
        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()

    with pytest.raises(Forbidden, match="open a socket"), rules_of("unit"):
        run_a_thread()


def test_every_test_stands_in_a_layer_that_pyproject_names(pytestconfig: pytest.Config) -> None:
    folders = {layer_of(path) for path in TESTS.rglob("test_*.py")}
    markers = {line.partition(":")[0] for line in pytestconfig.getini("markers")}

    assert folders <= markers
    assert FORBIDDEN.keys() <= folders


def test_a_layer_is_a_folder_below_tests() -> None:
    assert layer_of(Path(__file__)) == "unit"
