"""The wheels for machines without a compiler, with kernels that zig compiled: one for x86_64, one for aarch64.

    pip install -e '.[wheels]'
    python -m tools.wheels                 # into dist/
    python -m tools.wheels --into FOLDER

The build checks that each library needs no more of the system than the name of its wheel promises
(worker/kernels/build_hook.py); what it needs is printed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from worker.kernels.elf_needs import Needs, needs_of
from worker.kernels.files import FOLDER, LIBRARY

ROOT = Path(__file__).parents[1]
# glibc 2.17 of 2012 is the oldest that zig knows, and older than any that onnxruntime's wheels run on.
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64")
IN_WHEEL = LIBRARY.relative_to(FOLDER.parents[1]).as_posix()


def make_wheel(platform: str, into: Path) -> Path:
    """Build the wheel for a platform tag. Raises CalledProcessError, with what the build printed."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as name:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        environment = {**os.environ, "KVJOBS_BUILD_FOR": platform}
        subprocess.run(command, cwd=ROOT, env=environment, text=True, check=True, capture_output=True)
        (wheel,) = Path(name).iterdir()
        return wheel.replace(into / wheel.name)


def needs_of_wheel(wheel: Path) -> Needs:
    """What the kernels within need."""
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        return needs_of(Path(archive.extract(IN_WHEEL, name)))


def main() -> None:
    """Make the wheels for all platforms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="FOLDER")
    into: Path = parser.parse_args().into.resolve()
    for platform in PLATFORMS:
        try:
            wheel = make_wheel(platform, into)
        except subprocess.CalledProcessError as error:
            last = re.findall(r"\S.*", error.stderr)[-1:]
            sys.exit(f"no wheel for {platform}: {''.join(last)}")
        needs = needs_of_wheel(wheel)
        print(wheel, f"needs {', '.join(sorted(needs.libraries | needs.versions))}", sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
