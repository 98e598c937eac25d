"""Texts as HTML: nothing in them is a part of the page, and nothing is hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from jobs.web.document_view.marked_text import marked


def test_html_is_text() -> None:
    assert marked("<script>alert('x')</script> & more") == escape("<script>alert('x')</script> & more")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[31m", ">ESC<"), ("\u202e", ">RLO<"), ("\u200b", ">ZWSP<"), ("\x9b", ">9B<"), ("\ud800", "D800")],
)
def test_a_character_that_cannot_be_seen_is_a_mark_with_its_name(text: str, shown: str) -> None:
    html = marked(text)

    assert text[0] not in html
    assert shown in html
    assert "U+" in html


def test_line_ends_and_tabs_stay() -> None:
    assert marked("a\n\tb") == "a\n\tb"


def test_what_was_searched_for_is_marked_in_any_case_of_a_to_z() -> None:
    assert marked("Rain, RAIN & Räin", "rain") == "<mark>Rain</mark>, <mark>RAIN</mark> &amp; Räin"


@given(st.text(), st.text(max_size=3))
def test_marking_changes_no_visible_sign(text: str, search: str) -> None:
    html = str(marked(text, search)).replace("<mark>", "").replace("</mark>", "")

    assert html == str(marked(text))
