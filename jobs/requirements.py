"""Packages that kvjobs asks for, and how one that is missing is installed: by its own name, so the command is the same
wherever kvjobs itself was installed from (a checkout, a wheel, an index)."""

import importlib.metadata
import re

DISTRIBUTION = "kvjobs"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<rest>[^;]*)")


def install_command(package: str) -> str:
    """`pip install 'psycopg[binary]>=3.2'` for psycopg: in the version that kvjobs wants, if it wants it."""
    try:
        wanted = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # found in a folder, not installed
        wanted = []
    for requirement in wanted:
        match = _REQUIREMENT.match(requirement)
        if match and _normal(match["name"]) == _normal(package):
            return f"pip install '{(match['name'] + match['rest']).strip()}'"
    return f"pip install {package}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
