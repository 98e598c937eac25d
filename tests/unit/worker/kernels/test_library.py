"""Which of the kernels are used, and by what."""

import pytest

from worker.kernels.files import LIBRARY
from worker.kernels.library import MEASURED, Library


@pytest.mark.parametrize(
    ("instruction_set", "is_asked_for", "fuses"),
    [("avx512", False, True), ("avx2", False, True), ("any", False, False), ("any", True, True)],
)
def test_graphs_are_fused_only_for_an_instruction_set_that_was_measured_or_asked_for(
    instruction_set: str, is_asked_for: bool, fuses: bool
) -> None:
    """`any`: aarch64, and processors of x86_64 without AVX2. onnxruntime has operators for these."""
    library = Library(LIBRARY, instruction_set, None, is_asked_for)

    assert library.fuses is fuses
    assert instruction_set in library.describe()
    assert ("KVJOBS_KERNELS" in library.describe()) is (is_asked_for or not fuses)
    assert all(name in library.describe() for name in MEASURED) is not fuses
