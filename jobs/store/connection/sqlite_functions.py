"""Functions in SQL that a build of SQLite may lack."""

import math
import sqlite3
from typing import Any


def add_exp_and_ln(connection: sqlite3.Connection) -> None:
    """exp and ln, which the views need and which SQLite has only where it was built with them. As there, what is no
    number is null and what is too large is infinite."""
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
