"""SQL functions that a build of SQLite may lack."""

import math
import sqlite3
from typing import Any


def add_exp_and_ln(connection: sqlite3.Connection) -> None:
    """Add exp and ln, which the views need, where SQLite was built without them. As in SQLite, an argument that is not
    a number gives null, and a result that is too large is infinite."""
    try:
        connection.execute("SELECT exp(0), ln(1)")
    except sqlite3.OperationalError:
        connection.create_function("exp", 1, _exp, deterministic=True)
        connection.create_function("ln", 1, _ln, deterministic=True)


def _exp(value: Any) -> float | None:
    if not isinstance(value, int | float):
        return None
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _ln(value: Any) -> float | None:
    return math.log(value) if isinstance(value, int | float) and value > 0 else None
