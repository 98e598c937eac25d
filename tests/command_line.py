"""What a call of the command line in this process returns."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a call of `kvjobs` left."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Kvjobs = Callable[..., Result]
