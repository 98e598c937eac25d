"""What a wheel's platform tag promises of the system: a machine, a glibc, a few libraries."""

import dataclasses

import pytest

from worker.kernels.elf_needs import Needs, broken_promises

X86_64, AARCH64 = "manylinux_2_17_x86_64", "manylinux_2_17_aarch64"
MODEST = Needs("x86_64", frozenset({"libc.so.6"}), frozenset({"GLIBC_2.2.5", "GLIBC_2.14", "GLIBC_2.17"}))


def test_a_library_may_need_what_its_tag_promises() -> None:
    assert broken_promises(MODEST, X86_64) == []
    assert broken_promises(dataclasses.replace(MODEST, machine="aarch64"), AARCH64) == []
    assert broken_promises(Needs("x86_64"), X86_64) == []


@pytest.mark.parametrize(
    "version", ["GLIBC_2.18", "GLIBC_2.17.1", "GLIBC_3.0", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GCC_3.0"]
)
def test_a_symbol_of_a_later_glibc_or_of_another_library_breaks_it(version: str) -> None:
    (broken,) = broken_promises(dataclasses.replace(MODEST, versions=MODEST.versions | {version}), X86_64)
    assert broken == version


def test_a_later_tag_promises_more() -> None:
    needs = dataclasses.replace(MODEST, versions=frozenset({"GLIBC_2.28"}))
    assert broken_promises(needs, X86_64) == ["GLIBC_2.28"]
    assert broken_promises(needs, "manylinux_2_28_x86_64") == []


@pytest.mark.parametrize(
    ("needs", "named"),
    [
        (dataclasses.replace(MODEST, machine="aarch64"), "aarch64"),
        (dataclasses.replace(MODEST, libraries=frozenset({"libc.so.6", "libgomp.so.1"})), "libgomp.so.1"),
        (dataclasses.replace(MODEST, homeless=frozenset({"__aarch64_cas8_acq_rel"})), "__aarch64_cas8_acq_rel"),
    ],
)
def test_another_machine_library_or_symbol_breaks_it(needs: Needs, named: str) -> None:
    (broken,) = broken_promises(needs, X86_64)
    assert named in broken


def test_a_tag_without_a_glibc_promises_none() -> None:
    (broken,) = broken_promises(MODEST, "linux_x86_64")
    assert "linux_x86_64" in broken
