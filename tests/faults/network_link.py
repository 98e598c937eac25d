"""A network link between a trial's processes and the machine, which can drop every packet silently.

A network namespace with one pair of interfaces. Nothing is refused, reset or reported while packets are dropped: each
end sends to a hardware address that no interface has.
"""

import os
import shutil
import subprocess
from typing import Self

from tests.faults.servers import missing

HERE, THERE = "10.211.7.1", "10.211.7.2"  # addresses of this machine and of the namespace
UNKNOWN_HARDWARE = "02:00:00:00:00:99"


class NetworkLink:
    """A context manager: the link exists from the start to the end of the block."""

    def __init__(self) -> None:
        self.name = f"kvjobs-{os.getpid()}"
        self._here, self._there = f"kvh{os.getpid()}", f"kvt{os.getpid()}"
        # Runs a command at the other end of the link.
        self.prefix = ("ip", "netns", "exec", self.name)

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            missing("only root can make a network namespace, with the command ip")
        made = subprocess.run(["ip", "netns", "add", self.name], capture_output=True, text=True, check=False)
        if made.returncode:
            missing(f"no network namespace can be made here: {made.stderr.strip()}")
        self._ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.name)
        self._ip("addr", "add", f"{HERE}/30", "dev", self._here)
        self._ip("link", "set", self._here, "up")
        self._ip("-n", self.name, "addr", "add", f"{THERE}/30", "dev", self._there)
        self._ip("-n", self.name, "link", "set", self._there, "up")
        return self

    def __exit__(self, *_: object) -> None:
        self._ip("link", "delete", self._here)
        self._ip("netns", "delete", self.name)

    def drop_packets(self) -> None:
        """Until `heal`, no packet arrives at the other end, in either direction."""
        for where, address, device in self._ends():
            self._ip(*where, "neigh", "replace", address, "lladdr", UNKNOWN_HARDWARE, "nud", "permanent", "dev", device)

    def heal(self) -> None:
        """Packets arrive again."""
        for where, address, device in self._ends():
            self._ip(*where, "neigh", "delete", address, "dev", device)

    def _ends(self) -> tuple[tuple[tuple[str, ...], str, str], ...]:
        return ((), THERE, self._here), (("-n", self.name), HERE, self._there)

    def _ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)
