"""The wheels for machines without a compiler. Skipped where zig is missing, which .ci/kernels installs."""

import email
import subprocess
import sys
import types
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.models.kernels.answers import answers, kernels_of
from tests.models.kernels.conftest import INSTRUCTION_SETS
from worker.kernels.build import ZIG, is_up_to_date
from worker.kernels.files import LIBRARY
from worker.kernels.probe import wrong_kernels

pytestmark = [
    pytest.mark.may_skip,
    pytest.mark.timeout(300),  # glibc's symbols and zig's runtime library are made first, for each machine
    pytest.mark.skipif(
        not all(map(find_spec, (ZIG, "elftools", "hatchling"))), reason="needs zig (100 MB): pip install -e '.[wheels]'"
    ),
]
X86_64, AARCH64 = "manylinux_2_17_x86_64", "manylinux_2_17_aarch64"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel for each platform."""
    from tools.wheels import PLATFORMS, make_wheel

    folder = tmp_path_factory.mktemp("wheels")
    with ThreadPoolExecutor() as pool:
        return dict(zip(PLATFORMS, pool.map(lambda platform: make_wheel(platform, folder), PLATFORMS), strict=True))


@pytest.fixture(scope="module")
def library(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one of the wheel for x86_64."""
    with zipfile.ZipFile(wheels[X86_64]) as archive:
        return Path(archive.extract("worker/kernels/kernels.so", tmp_path_factory.mktemp("library")))


def test_both_wheels_are_made_and_need_no_more_than_their_names_promise(wheels: dict[str, Path]) -> None:
    from tools.wheels import needs_of_wheel
    from worker.kernels.elf_needs import broken_promises

    assert set(wheels) == {X86_64, AARCH64}
    for platform, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (told,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
        needs = needs_of_wheel(wheel)
        assert wheel.name.endswith(f"-py3-none-{platform}.whl")
        assert email.message_from_string(told)["Tag"] == f"py3-none-{platform}"
        assert email.message_from_string(told)["Root-Is-Purelib"] == "false"
        assert names.count("worker/kernels/kernels.so") == 1
        assert not {"worker/kernels/build_hook.py", "worker/kernels/elf_needs.py"} & set(names)
        assert broken_promises(needs, platform) == []
        assert needs.libraries == {"libc.so.6"}, "a library that is read wrongly seems to need nothing"


def test_the_kernels_of_a_wheel_give_the_bytes_of_those_that_were_compiled_here(library: Path) -> None:
    if not is_up_to_date():
        pytest.skip("the kernels are not compiled here: install a C compiler, then kvjobs again")
    compared = 0
    for instruction_set in INSTRUCTION_SETS:
        of_wheel, own = kernels_of(library, instruction_set), kernels_of(LIBRARY, instruction_set)
        if of_wheel is None or own is None:
            assert of_wheel is own, "both ask the processor alike"
            continue
        assert wrong_kernels(of_wheel) == []
        for (name, found), (_, wanted) in zip(answers(of_wheel), answers(own), strict=True):
            assert np.array_equal(found.view(np.uint8), wanted.view(np.uint8)), f"{name}, {instruction_set}"
            compared += 1
    assert compared


def test_a_wheel_without_the_variable_is_for_machines_like_this_one(tmp_path: Path) -> None:
    """With the library that was compiled here, as pip makes it from a checkout."""
    if not is_up_to_date():
        pytest.skip("the kernels are not compiled here: install a C compiler, then kvjobs again")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=LIBRARY.parents[2], check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("worker/kernels/kernels.so") == LIBRARY.read_bytes()


def test_a_build_fetches_what_the_extra_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an installation on a machine without a compiler, zig alone."""
    from worker.kernels import build_hook

    extra = ["hatchling>=1", "pyelftools>=0.1", f"{ZIG}==0.1.2"]
    metadata = types.SimpleNamespace(core=types.SimpleNamespace(optional_dependencies={"wheels": extra}))
    hook = build_hook.KernelsHook(str(LIBRARY.parents[2]), {}, None, metadata, "", "wheel")
    monkeypatch.setattr(build_hook, "is_up_to_date", lambda: False)
    monkeypatch.setattr(build_hook, "compiler", lambda: None)

    assert hook.dependencies() == extra[2:]
    monkeypatch.setenv("KVJOBS_BUILD_FOR", AARCH64)
    assert hook.dependencies() == extra
    monkeypatch.delenv("KVJOBS_BUILD_FOR")
    monkeypatch.setattr(build_hook, "compiler", lambda: ["cc"])
    assert hook.dependencies() == []
