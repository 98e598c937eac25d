"""What a parent tells the process that it starts: settings, as one argument. Secrets travel in the environment."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.settings import Settings

DATABASE = "KVJOBS_DATABASE"  # may hold a password, and arguments are there for every user of the machine to see


@dataclass(frozen=True, slots=True)
class Orders:
    """Settings, and whether to end when no work is left."""

    settings: Settings
    drain: bool = False

    def argument(self) -> str:
        """As JSON, without the database's address."""
        values: dict[str, Any] = {
            name: str(v) if isinstance(v, Path) else v for name, v in dataclasses.asdict(self.settings).items()
        }
        del values["database"]
        return json.dumps({"settings": values, "drain": self.drain})

    def environment(self) -> dict[str, str]:
        """Of this process, and the database's address."""
        return {**os.environ, DATABASE: self.settings.database}

    @classmethod
    def from_argument(cls, argument: str) -> "Orders":
        """What `argument` and `environment` say."""
        orders = json.loads(argument)
        values = orders["settings"]
        paths = {name: Path(values[name]) for name in ("home", "models_dir")}
        return cls(Settings(**(values | paths), database=os.environ.get(DATABASE, "")), orders["drain"])
