"""
What a compiled library needs of the system that loads it, and whether a wheel's platform tag promises that.

Knows: ELF, by pyelftools, which only builds have; PEP 600. The wheel leaves this file out.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# Of the libraries that every system has which PEP 600 means, those that C code may need.
_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
_GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")
_TAG = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a shared library needs before it can be loaded."""

    machine: str  # as in tags: x86_64, aarch64; others as in ELF
    libraries: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()  # of the symbols of those libraries: GLIBC_2.14
    homeless: frozenset[str] = frozenset()  # symbols without a version, which glibc's all have


def needs_of(library: Path) -> Needs:
    """Read what a shared library needs. Raises ELFError for a file that is none."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        elf = ELFFile(file)
        dynamic, numbers = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".gnu.version")
        libraries = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
        needed = elf.get_section_by_name(".gnu.version_r")
        versions = {version.name for _, given in (needed.iter_versions() if needed else ()) for version in given}
        homeless = {
            symbol.name
            for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols())
            if symbol["st_shndx"] == "SHN_UNDEF"
            and symbol["st_info"]["bind"] == "STB_GLOBAL"
            and not (numbers and isinstance(numbers.get_symbol(index)["ndx"], int))
        }
        machine = _MACHINES.get(elf["e_machine"], elf["e_machine"])
        return Needs(machine, frozenset(libraries), frozenset(versions), frozenset(homeless))


def broken_promises(needs: Needs, tag: str) -> list[str]:
    """What a library needs that a platform tag, such as manylinux_2_17_x86_64, does not promise."""
    found = _TAG.fullmatch(tag)
    if found is None:
        return [f"{tag} says no glibc"]
    oldest, machine = (int(found[1]), int(found[2])), found[3]
    broken = [] if needs.machine == machine else [f"the machine {needs.machine}"]
    broken += sorted(needs.libraries - _LIBRARIES)
    broken += sorted(version for version in needs.versions if not _is_promised(version, oldest))
    return broken + [f"{symbol}, which no library is named for" for symbol in sorted(needs.homeless)]


def _is_promised(version: str, oldest: tuple[int, int]) -> bool:
    found = _GLIBC.fullmatch(version)
    return found is not None and tuple(map(int, found[1].split("."))) <= oldest
