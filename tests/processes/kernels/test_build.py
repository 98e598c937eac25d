"""Compiling the kernels, and what is said where that is impossible."""

import sys
from pathlib import Path

import pytest

from worker.kernels import build as kernels_build
from worker.kernels.build import ZIG, NotCompiledError, build, compiler
from worker.kernels.library import NoKernelsError, open_library


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if compiler() is None:
        pytest.skip("there is no C compiler here: install gcc")
    file = tmp_path_factory.mktemp("kernels") / "kernels.so"
    build(file)
    return file


def test_what_was_compiled_is_used(compiled: Path) -> None:
    assert open_library(compiled).instruction_set in ("any", "avx2", "avx512")


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
    assert compiler() == [sys.executable, "-m", ZIG, "cc", "-mcpu=baseline"]

    monkeypatch.setattr(kernels_build, "find_spec", lambda name: None)
    assert compiler() is None
    with pytest.raises(NotCompiledError, match="no C compiler"):
        build(Path("nowhere.so"))
