"""`kvjobs web` as a process of its own, on a free port of this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))


@dataclass
class WebProcess:
    """A dashboard that runs until it is killed."""

    process: subprocess.Popen[bytes]
    address: str  # http://127.0.0.1:PORT

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def web_process(home: Path, **variables: str) -> Iterator[WebProcess]:
    """The dashboard of a home folder. `variables`: of its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    environment |= {"KVJOBS_HOME": str(home), **variables}
    log = home / "web.log"
    with (
        log.open("wb") as said,
        subprocess.Popen([KVJOBS, "web", "--port", "0"], env=environment, stderr=said) as process,
    ):
        try:
            yield WebProcess(process, _address(process, log))
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if "http://" in (text := log.read_text()):
            return "http://" + text.split("http://")[1].split()[0]
        time.sleep(0.05)
    raise AssertionError(f"kvjobs web did not start: {log.read_text()}")
