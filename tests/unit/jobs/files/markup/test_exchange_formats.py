"""XLIFF, TMX and TBX."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.markup.entries import TBX, TMX
from jobs.files.markup.xliff import FORMAT as XLIFF
from jobs.files.translatable import ForeignFile

INLINE = st.lists(
    st.sampled_from(
        [
            "words ",
            "Ä",
            "\n  ",
            "&amp;",
            "&#8364;",
            "<g id='1'>x</g>",
            "<x id='2'/>",
            "<ph id='3'>&lt;b></ph>",
            "<![CDATA[<i>]]>",
            "<!-- no -->",
        ]
    )
).map("".join)
TARGETS = st.sampled_from(["", "<target/>", "<target state='new'></target>", "<target>Da</target>", "<!-- no -->"])
UNITS = st.lists(
    st.builds(
        "<trans-unit id='{}'{}>\r\n <source>{}</source>{}</trans-unit>".format,
        st.integers(1, 3),
        st.sampled_from(["", " translate='no'", ' approved="yes"']),
        INLINE,
        TARGETS,
    )
).map("".join)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "iso-8859-1"])


def xliff(units: str, encoding: str = "utf-8") -> bytes:
    head = f"<?xml version='1.0' encoding='{encoding}'?>\n<xliff version='1.2'><file source-language='en'><body>"
    return f"{head}{units}</body></file></xliff>".encode(encoding)


@given(UNITS, ENCODINGS, st.booleans())
def test_an_xliff_file_with_its_own_texts_comes_back_byte_for_byte(units, encoding, again):
    file = XLIFF.read(content := xliff(units, encoding), again=again)

    assert file.write([unit.text for unit in file.units]) == content
    assert file.write([None] * len(file.units)) == content


@given(UNITS)
def test_targets_that_are_written_are_found_and_not_asked_for_again(units):
    file = XLIFF.read(xliff(units))

    written = file.write([f"{unit.text}!" for unit in file.units], "de")

    assert list(XLIFF.read(written).units) == []
    assert len(XLIFF.read(written, again=True).units) >= len(file.units)


def test_a_target_stands_behind_its_source_with_its_state():
    content = xliff('\n  <trans-unit id="a" approved="yes">\n    <source>One &amp; two</source>\n  </trans-unit>')

    written = XLIFF.read(content).write(["Eins &amp; zwei"], "de").decode()

    assert (
        '\n  <trans-unit id="a" approved="no">\n    <source>One &amp; two</source>\n'
        '    <target state="needs-review-translation">Eins &amp; zwei</target>\n  </trans-unit>'
    ) in written
    assert "<file source-language='en' target-language=\"de\">" in written


def test_xliff_2_has_its_state_at_the_segment_and_its_language_at_the_root():
    content = (
        b'<xliff version="2.0" srcLang="en" trgLang="fr"><file id="f"><unit id="u"><notes><note>Seen</note></notes>'
        b'<segment id="s" state="initial"><source>One <pc id="1">two</pc></source><target/></segment>'
        b"<segment><source>Da</source><target>La</target></segment></unit></file></xliff>"
    )
    file = XLIFF.read(content)

    assert [(unit.name, unit.text, unit.context) for unit in file.units] == [("u/s", 'One <pc id="1">two</pc>', "Seen")]
    assert file.write(['Eins <pc id="1">zwei</pc>'], "de") == content.replace(b'"fr"', b'"de"').replace(
        b"initial", b"translated"
    ).replace(b"<target/>", b'<target>Eins <pc id="1">zwei</pc></target>')


@pytest.mark.parametrize(
    ("attributes", "most"),
    [('maxwidth="12" size-unit="char"', 12), ('maxwidth="12"', None), ('maxwidth="x" size-unit="char"', None)],
)
def test_a_unit_says_how_many_characters_its_translation_may_have(attributes, most):
    (unit,) = XLIFF.read(xliff(f'<trans-unit id="a" {attributes}><source>One</source></trans-unit>')).units

    assert unit.max_chars == most


@pytest.mark.parametrize(
    ("profile", "says", "segments", "most"),
    [
        ("xliff:codepoints", "30", 1, 30),
        ("xliff:codepoints", "2,30", 1, 30),
        ("xliff:codepoints", "many", 1, None),
        ("xliff:codepoints", "30", 2, None),
        ("mine:pixels", "30", 1, None),
    ],
)
def test_a_unit_of_the_second_version_says_it_in_code_points(profile, says, segments, most):
    content = (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" '
        'xmlns:slr="urn:oasis:names:tc:xliff:sizerestriction:2.0"><file id="f">'
        f'<slr:profiles generalProfile="{profile}"/><group id="g"><unit id="u" slr:sizeRestriction="{says}">'
        + "<segment><source>One</source></segment>" * segments
        + "</unit></group></file></xliff>"
    ).encode()

    assert [unit.max_chars for unit in XLIFF.read(content).units] == [most] * segments


def test_native_code_in_a_text_is_a_numbered_mark_and_a_text_of_the_same_words_is_written_with_a_language():
    source = "<bpt id='1'>&lt;b></bpt>OK<ept id='1'>&lt;/b></ept>"
    file = XLIFF.read(xliff(f"<trans-unit id='a'><source>{source}</source></trans-unit>"))

    assert [unit.text for unit in file.units] == ["<1/>OK<2/>"]
    assert f">{source}</target>" in file.write(["<1/>OK<2/>"], "de").decode()


@pytest.mark.parametrize("text", ["a & b", "a < b", "<b>a", "</source>", "<3/>", "\x01"])
def test_a_text_that_would_break_the_file_is_refused_with_the_name_of_its_unit(text):
    file = XLIFF.read(xliff("<trans-unit id='a'><source>One</source></trans-unit>"))

    with pytest.raises(SpecError, match="unit a"):
        file.write([text])


MEMORY = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US"/><body>
  <tu tuid="a">
    <tuv xml:lang="en-US"><seg>One <ph>{x}</ph></seg></tuv>
  </tu>
  <tu><tuv xml:lang="en"><seg>Two</seg></tuv><tuv xml:lang="de"><seg>Zwei</seg></tuv></tu>
</body></tmx>"""


def test_a_memory_gets_a_text_in_the_target_language():
    file = TMX.read(MEMORY.encode(), target_language="de")

    assert [unit.text for unit in file.units] == ["One <1/>"]
    assert file.write(["Eins <1/>"], "de").decode() == MEMORY.replace(
        "</ph></seg></tuv>", '</ph></seg></tuv>\n    <tuv xml:lang="de"><seg>Eins <ph>{x}</ph></seg></tuv>'
    )


def test_a_translation_that_a_memory_has_is_replaced_when_it_is_asked_for_again():
    file = TMX.read(MEMORY.encode(), again=True, target_language="de-AT")

    assert file.write([None, "Zwo"], "de-AT").decode() == MEMORY.replace("Zwei", "Zwo")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '<martif xml:lang="en"><termEntry id="c1"><langSet xml:lang="en"><tig><term>valve</term></tig></langSet>|',
            '<langSet xml:lang="de"><tig><term>Ventil</term></tig></langSet>',
        ),
        (
            '<tbx xml:lang="en"><conceptEntry><langSec xml:lang="en"><termSec><term>valve</term></termSec></langSec>|',
            '<langSec xml:lang="de"><termSec><term>Ventil</term></termSec></langSec>',
        ),
    ],
)
def test_a_term_base_gets_a_term_in_the_target_language(before, after):
    ends = "</termEntry></martif>" if "martif" in before else "</conceptEntry></tbx>"
    content = before.replace("|", "") + ends
    file = TBX.read(content.encode(), target_language="de")

    assert [unit.text for unit in file.units] == ["valve"]
    assert file.write(["Ventil"]).decode() == before.replace("|", after) + ends
    assert file.write(["valve"]).decode() == content


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><xliff>&c;</xliff>',
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><xliff>&a;</xliff>',
        b'<!DOCTYPE x [<!ENTITY % a SYSTEM "http://example.org/x.dtd"> %a;]><xliff/>',
        b"<xliff>",
        b"<xliff>&undefined;</xliff>",
        b"<xliff>\xff</xliff>",
        b"",
    ],
)
def test_entities_and_broken_files_are_refused_with_the_line(content):
    for form in (XLIFF, TMX, TBX):
        with pytest.raises(CorpusError, match="line 1"):
            form.read(content)


@pytest.mark.parametrize(
    ("before", "behind"), [("<g>", "</g>"), ("<trans-unit>", "</trans-unit>"), ("<!---->", ""), ("<ph>", "</ph>")]
)
def test_a_hostile_file_takes_time_by_its_length(before, behind):
    start = time.process_time()
    inside = before * 20_000 + "x" + behind * 20_000
    content = xliff(f"<trans-unit><source>One {inside}</source></trans-unit>{inside}")

    XLIFF.read(content).write(["x"])

    assert time.process_time() - start < 3


SEGMENTED = (
    '<trans-unit id="a">\n <source>One. <g id="1">Two.</g> 3</source>\n'
    ' <seg-source><mrk mtype="seg" mid="1">One.</mrk> <g id="1"><mrk mtype="seg" mid="2">Two.</mrk></g> '
    '<mrk mtype="seg" mid="3">3</mrk></seg-source>\n{}</trans-unit>'
)
TARGET = (
    '<target{}><mrk mtype="seg" mid="1">{}</mrk> <g id="1"><mrk mtype="seg" mid="2">{}</mrk></g> '
    '<mrk mtype="seg" mid="3">3</mrk></target>'
)
STATE = ' state="needs-review-translation"'


@pytest.mark.parametrize(
    ("before", "again", "texts", "after"),
    [
        ("", False, ["Eins.", "Zwei."], "\n " + TARGET.format(STATE, "Eins.", "Zwei.") + "\n"),
        ("", False, [None, "Zwei."], "\n " + TARGET.format(STATE, "", "Zwei.") + "\n"),
        (" <target/>\n", False, ["Eins.", "Zwei."], " " + TARGET.format(STATE, "Eins.", "Zwei.") + "\n"),
        (TARGET.format("", "1.", " "), False, ["Zwei."], TARGET.format(STATE, "1.", "Zwei.")),
        (TARGET.format("", "1.", "2."), False, [], TARGET.format("", "1.", "2.")),
        (TARGET.format("", "1.", "2."), True, ["Eins.", None], TARGET.format(STATE, "Eins.", "2.")),
        ("<target>Alles</target>", False, [], "<target>Alles</target>"),
        ("<target>Alles</target>", True, ["Eins.", "Zwei."], TARGET.format(STATE, "Eins.", "Zwei.")),
    ],
)
def test_segments_of_xliff_1_are_units_and_the_target_has_the_same_ones(before, again, texts, after):
    content = xliff(SEGMENTED.format(before))
    file = XLIFF.read(content, again=again)

    assert [unit.name for unit in file.units] == ["a/1", "a/2"][-len(texts) :] * bool(texts)
    assert file.write([unit.text for unit in file.units]) == content
    expected = xliff(SEGMENTED.format(after).replace("\n\n", "\n")).decode()
    found = file.write(texts, "de").decode().replace(' target-language="de"', "")
    assert found == expected


def test_a_segment_of_xliff_2_loses_its_sub_state_and_what_is_protected_is_a_mark():
    source = 'One <mrk id="1" translate="no">two</mrk> <mrk id="2" type="term">three</mrk>'
    segment = f'<segment state="initial" subState="x:new"><source>{source}</source></segment>'
    content = f'<xliff version="2.1" srcLang="en"><file id="f"><unit id="u">{segment}</unit></file></xliff>'.encode()
    file = XLIFF.read(content)
    assert [unit.text for unit in file.units] == ['One <1/> <mrk id="2" type="term">three</mrk>']
    written = file.write(["<1/> Eins"], "de").decode()
    assert '<segment state="translated"><source>' in written
    assert '</source><target><mrk id="1" translate="no">two</mrk> Eins</target>' in written


@pytest.mark.parametrize("form", [TMX, TBX])
def test_xml_of_another_kind_is_foreign(form):
    with pytest.raises(ForeignFile):
        form.read(b"<map><layer name='One two'/></map>")
