"""Compiling the kernels, and what is said where that is impossible."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from worker.kernels import build as kernels_build
from worker.kernels.build import ZIG, NotCompiledError, build, compiler, is_up_to_date
from worker.kernels.files import LIBRARY
from worker.kernels.functions import Kernels
from worker.kernels.library import NoKernelsError, open_library
from worker.kernels.probe import wrong_kernels


@pytest.fixture(scope="module")
def compiled() -> Path:
    """By the installation."""
    if not is_up_to_date():
        pytest.skip("the kernels are not compiled here: install a C compiler, then kvjobs again")
    return LIBRARY


@pytest.mark.may_skip  # .ci/kernels installs ziglang, and lets nothing be skipped
@pytest.mark.timeout(300)  # a compiler of its own and a C library are compiled first: 17 s of processor time in all
def test_the_compiler_that_an_installation_fetches_makes_right_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec(ZIG) is None:
        pytest.skip("zig is not installed: pip install ziglang (100 MB)")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "kernels.so"

    build(file)

    library = open_library(file)
    assert wrong_kernels(Kernels(library)) == []
    assert library.functions.kvjobs_choose_kernels(b"any") == b"any"
    assert wrong_kernels(Kernels(library)) == []


@pytest.mark.parametrize("name", ["any", "off", "vax"])
def test_a_variable_chooses_an_instruction_set_or_none(
    compiled: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_KERNELS", name)
    if name == "any":
        library = open_library(compiled)
        assert library.instruction_set == name
        library.functions.kvjobs_choose_kernels(None)
    else:
        with pytest.raises(NoKernelsError, match=f"KVJOBS_KERNELS is '?{name}") as error:
            open_library(compiled)
        assert error.value.mend == "unset KVJOBS_KERNELS"


def test_kernels_of_other_sources_are_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `git pull` in an editable installation."""
    monkeypatch.setattr("worker.kernels.library.sources_digest", lambda: "another")

    with pytest.raises(NoKernelsError, match="other sources") as error:
        open_library(compiled)
    assert error.value.mend == "run: python -m worker.kernels.build"


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kernels.so"
    file.write_text("text")

    with pytest.raises(NoKernelsError, match="cannot be loaded"):
        open_library(file)
    with pytest.raises(NoKernelsError, match="not compiled"):
        open_library(tmp_path / "none.so")


def test_a_compiler_that_fails_leaves_no_library_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a new one nor the one before."""
    file = tmp_path / "kernels.so"
    for command, message in (("false", "false .* failed"), (str(tmp_path / "none"), "could not be started")):
        file.write_text("an old one")
        monkeypatch.setenv("CC", command)
        with pytest.raises(NotCompiledError, match=message):
            build(file)
        assert not file.exists()


def test_without_a_compiler_on_the_machine_that_of_a_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(kernels_build, "find_spec", lambda name: object() if name == ZIG else None)
    assert compiler() == [sys.executable, "-m", ZIG, "cc", "-mcpu=baseline", "-fno-sanitize=undefined"]

    monkeypatch.setattr(kernels_build, "find_spec", lambda name: None)
    assert compiler() is None
    with pytest.raises(NotCompiledError, match="no C compiler"):
        build(Path("nowhere.so"))


def test_a_platform_that_has_no_kernels_is_refused(tmp_path: Path) -> None:
    for tag in ("win_amd64", "manylinux_2_17_riscv64", "musllinux_1_2_x86_64"):
        with pytest.raises(NotCompiledError, match=tag):
            build(tmp_path / "kernels.so", tag=tag)
    assert not list(tmp_path.iterdir())
