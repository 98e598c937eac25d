"""Glossaries: what a file says, what is refused with its line, and that the digest is of the terms alone."""

import gzip
from pathlib import Path

import pytest

from jobs.errors import SpecError
from jobs.terms.glossary import Glossary, path_in, read_glossary, read_glossary_file, read_kept_terms
from jobs.terms.term import MAX_TERM_CHARACTERS, MAX_TERMS, Term

TBX = """<?xml version="1.0"?><tbx type="TBX-Core"><text><body><conceptEntry id="1">
<langSec xml:lang="en"><termSec><term>rain</term></termSec><termSec><term>rainfall</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Regen</term></termSec><termSec><term>Regenfall</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


def test_columns_are_in_any_order_below_a_line_of_names_and_in_one_order_without() -> None:
    named = read_glossary("words\ttarget\tnote\tsource\tcase\npart\tRegen|Regens\tx\train\tsensitive\n")
    plain = read_glossary("\ufeffrain\tRegen\tRegens\tsensitive\tpart\r\n\r\n")

    assert named == plain
    assert named.terms() == [Term("rain", ("Regen", "Regens"), True, True, False)]


def test_the_digest_is_of_the_terms_whatever_their_order_and_form() -> None:
    first = read_glossary("rain\tRegen\nsnow\tSchnee\n")

    assert first == read_glossary("source\ttarget\n snow \tSchnee\nrain\tRegen\nrain\tRegen") != read_glossary("a\tb")
    assert (
        first
        == read_glossary({"rain": "Regen", "snow": "Schnee"})
        == read_glossary('{"snow": "Schnee", "rain": "Regen"}')
    )
    assert first == read_glossary(str(first))
    assert read_glossary(str(first)).content is None


def test_a_term_in_capitals_is_one_in_capitals_alone() -> None:
    assert [term.source_is_cased for term in read_glossary("US\tUSA\nus\tuns\nA\tB").terms()] == [False, True, False]


def test_terms_that_stay_are_a_line_each_and_are_written_so() -> None:
    assert read_kept_terms("Berlin\nNew York\n").terms() == [
        Term(name, (name,), True, True) for name in ("Berlin", "New York")
    ]
    assert read_kept_terms("Berlin\n") == read_kept_terms(["Berlin"]) == read_kept_terms('["Berlin"]')


def test_each_term_of_a_tbx_entry_is_translated_by_the_first_of_the_other_language() -> None:
    found = {(term.source, term.source_language): term for term in read_glossary(TBX).terms()}

    assert found["rainfall", "en"].targets == ("Regen", "Regenfall")
    assert found["Regen", "de"].target_language == "en"
    assert len(found) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rain\tRegen\n\tSchnee\n", ["line 2", "empty"]),
        ("rain\t \n", ["line 1", "empty"]),
        ("rain\tRegen\nsnow\n", ["line 2", "tab"]),
        ("rain\tRegen\n\nRain\tNiederschlag\n", ["line 3", "line 1", "Regen", "Niederschlag"]),
        ("rain\tRegen\t\tbig\n", ["line 1", "'big'"]),
        (f"{'x' * (MAX_TERM_CHARACTERS + 1)}\ty\n", ["line 1", f"{MAX_TERM_CHARACTERS}"]),
        ("".join(f"t{number}\tx\n" for number in range(MAX_TERMS + 5)), [f"line {MAX_TERMS + 1}", f"{MAX_TERMS:,}"]),
        ("a\x1b[2Jb\tx\n", ["line 1", "control"]),
        ("...\tx\n", ["line 1", "letter"]),
        ("", ["no term"]),
        ('<!DOCTYPE tbx [<!ENTITY a "b">]><tbx/>', ["line 1", "entity"]),
        ("<html/>", ["<html>"]),
        ("<tbx><a>", ["line 1", "well-formed"]),
        ("<tbx>" + "<a>" * 100, ["nested"]),
        ("[" * 100_000, ["JSON"]),
        ('{"a": 1}', ["line 1"]),
    ],
)
def test_what_is_no_glossary_is_refused_with_its_line(text: str, words: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        read_glossary(text)

    assert all(word in str(refused.value) for word in words)
    assert len(str(refused.value)) < 250


def test_a_file_is_read_compressed_and_its_error_names_it(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv.gz"
    file.write_bytes(gzip.compress(b"rain\tRegen\n"))
    broken = tmp_path / "terms.tsv"
    broken.write_bytes(b"rain\tRegen\nsnow\t\xff\n")

    assert read_glossary_file(file, read_glossary) == read_glossary("rain\tRegen")
    for path, word in ((broken, "line 2"), (tmp_path / "none.tsv", "read")):
        with pytest.raises(SpecError) as refused:
            read_glossary_file(path, read_glossary)
        assert path.name in str(refused.value)
        assert word in str(refused.value)


def test_a_program_gives_a_path_or_the_terms() -> None:
    assert path_in("terms.tsv") == path_in(Path("terms.tsv")) == Path("terms.tsv")
    assert path_in("rain\tRegen") is path_in({"rain": "Regen"}) is path_in(str(Glossary("0" * 64))) is path_in(None)
