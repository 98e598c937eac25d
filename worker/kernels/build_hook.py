"""Compiles the kernels while hatchling builds a wheel or an editable installation.

Where that is impossible the installation goes on without them: everything works, small models more slowly. The pip
command with --verbose shows the message; `kvjobs doctor` says it too. A wheel that was asked for by its platform tag
(`tools/wheels.py`) has kernels that run there, or is not made.
"""

import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[2]))  # the build runs in an environment without kvjobs

from worker.kernels.build import ZIG, NotCompiledError, build, compiler, is_up_to_date
from worker.kernels.elf_needs import broken_promises, needs_of
from worker.kernels.files import LIBRARY

# Packagers whose machine must not compile: a wheel for every platform, without kernels.
_WITHOUT = "KVJOBS_BUILD_WITHOUT_KERNELS"
# The platform tag of a wheel for machines that need no compiler: manylinux_2_17_x86_64, manylinux_2_17_aarch64.
_FOR = "KVJOBS_BUILD_FOR"
_EXTRA = "wheels"  # of pyproject.toml, which says the version of zig
_ZIG_MACHINES = ("x86_64", "aarch64")
_IN_WHEEL = f"worker/kernels/{LIBRARY.name}"


class KernelsHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is there in a build alone
    """hatchling's build hook."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What a wheel for a platform is made with; or a C compiler for the time of the build, on a machine that has
        none and that zig has a wheel for."""
        extra: list[str] = self.metadata.core.optional_dependencies[_EXTRA]
        if os.environ.get(_FOR):
            return extra
        if os.environ.get(_WITHOUT) or is_up_to_date() or compiler():
            return []
        has_zig = sys.platform == "linux" and platform.machine() in _ZIG_MACHINES
        return [requirement for requirement in extra if has_zig and requirement.startswith(ZIG)]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, and tell the build which files go into the wheel."""
        if (tag := os.environ.get(_FOR)) and version != "editable":
            self._build_for(tag, build_data)
            return
        if os.environ.get(_WITHOUT):
            LIBRARY.unlink(missing_ok=True)
            return
        try:
            if not is_up_to_date():
                self._build(build_data)
        except NotCompiledError as error:
            self.app.display_warning(f"kvjobs is installed without its compiled kernels: {error}")
            return
        build_data["artifacts"].append(f"/{_IN_WHEEL}")
        _tag(build_data, sysconfig.get_platform().replace("-", "_").replace(".", "_"))

    def _build_for(self, tag: str, build_data: dict[str, Any]) -> None:
        """Compile for the platform of a tag, which has to be true of what was compiled."""
        library = self._build_elsewhere(build_data, tag)
        if broken := broken_promises(needs_of(library), tag):
            raise NotCompiledError(f"the kernels need more than {tag} promises: {', '.join(broken)}")
        _tag(build_data, tag)

    def _build(self, build_data: dict[str, Any]) -> None:
        """Compile beside the sources, where an editable installation looks; if that fails, in a temporary folder."""
        try:
            build()
        except OSError:  # the sources may only be read
            self._build_elsewhere(build_data)

    def _build_elsewhere(self, build_data: dict[str, Any], tag: str = "") -> Path:
        self._elsewhere = tempfile.TemporaryDirectory()  # removed with the hook, when the wheel is written
        library = Path(self._elsewhere.name, LIBRARY.name)
        build(library, tag=tag)
        build_data["force_include"][str(library)] = _IN_WHEEL
        return library


def _tag(build_data: dict[str, Any], platform_tag: str) -> None:
    build_data["pure_python"] = False
    build_data["tag"] = f"py3-none-{platform_tag}"
