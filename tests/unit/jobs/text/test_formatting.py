"""Numbers for people: three significant digits, separators, one place that writes them."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.text.formatting import figure, size

ROOT = Path(__file__).parents[3]
PLACES = ("jobs/cli", "jobs/web", "jobs/comparison", "jobs/advice", "jobs/facts", "worker/cli")
# Attributes of SVG and HTML, a number of lanes that is not known more exactly, a wait in whole seconds, digits that a
# command or a form reads back, ends of bins, and probabilities, of which very small ones are not told apart.
EXACT = {
    "jobs/cli/commands/watch.py": 1, "jobs/web/access.py": 1, "jobs/web/comparison_charts.py": 3,
    "jobs/web/document_view/document_filter.py": 5, "jobs/web/guards.py": 1, "jobs/web/job_page/perplexity.py": 2,
    "jobs/web/job_page/seconds.py": 1, "jobs/web/pages/query.py": 1, "jobs/web/rendering.py": 3,
    "jobs/web/templates/documents.html": 1, "jobs/web/templates/job_parts.html": 4, "jobs/web/templates/macros.html": 3,
    "jobs/web/templates/query.html": 2, "jobs/web/templates/worker_action.html": 1,
}  # fmt: skip
FLOAT_FORMAT = re.compile(r"[{:][-+,]*(?:\.\d+)?[feg]\}|'%[-+]?(?:\.\d+)?[feg]'")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (178028.0856, "178,028"), (1234.5, "1,234"), (999.6, "1,000"), (43.06, "43.1"), (9.996, "10.0"), (1.5, "1.50"),
        (0.0012, "0.00120"), (0.00001, "1.00e-05"), (2e12, "2.00e+12"), (0, "0"), (-0.5, "-0.500"),
        (float("inf"), "∞"), (float("-inf"), "-∞"), (float("nan"), "nan"), (None, "-"),
    ],
)  # fmt: skip
def test_a_figure_has_three_digits_and_separators(value: float | None, written: str) -> None:
    assert figure(value) == written


def test_a_difference_has_its_sign() -> None:
    assert [figure(value, is_signed=True) for value in (0.5, -1234.5, 0)] == ["+0.500", "-1,234", "0"]


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_a_figure_is_the_number_to_half_of_its_third_digit(value: float) -> None:
    written = figure(value)

    assert abs(Decimal(written.replace(",", "")) - Decimal(value)) <= Decimal("0.0051") * Decimal(value)
    assert len(re.sub(r"e.*|^[0.]+|[.,]", "", written)) == 3 or value >= 999.5


def test_sizes_have_three_digits_too() -> None:
    assert [size(number) for number in (0, 1023, 1536, 345 << 20, 20 << 30)] == [
        "0 bytes", "1,023 bytes", "1.50 KiB", "345 MiB", "20.0 GiB",
    ]  # fmt: skip


def test_no_other_place_writes_measured_numbers_for_people() -> None:
    files = [file for place in PLACES for file in (ROOT / place).rglob("*") if file.suffix in (".py", ".html")]
    found = {str(file.relative_to(ROOT)): len(FLOAT_FORMAT.findall(file.read_text())) for file in files}

    assert {name: number for name, number in found.items() if number > EXACT.get(name, 0)} == {}
