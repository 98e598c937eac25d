"""Word's and OpenDocument's texts."""

import io
import re
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.markup.docx import FORMAT as DOCX
from jobs.files.markup.odt import FORMAT as ODT

RUNS = st.lists(
    st.sampled_from(
        [
            "<w:r><w:t>words </w:t></w:r>",
            "<w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>",
            "<w:r><w:rPr><w:lang w:val='en'/></w:rPr><w:t xml:space='preserve'> &amp; </w:t></w:r>",
            "<w:r><w:br/><w:t>Ä</w:t><w:tab/></w:r>",
            "<w:bookmarkStart w:id='1'/>",
            "<w:hyperlink r:id='x'><w:r><w:t>link</w:t></w:r></w:hyperlink>",
            "<w:ins><w:r><w:t>new</w:t></w:r><w:bookmarkEnd/><w:r><w:i/><w:t>er</w:t></w:r></w:ins>",
            "<w:r><w:fldChar w:fldCharType='begin'/></w:r>",
            "<w:r><w:instrText>HYPERLINK</w:instrText></w:r><w:r><w:fldChar w:fldCharType='separate'/></w:r>",
            "<w:r><w:fldChar w:fldCharType='end'/></w:r>",
            "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>",
            "<w:r><w:pict><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:pict></w:r>",
            "<w:proofErr/>",
        ]
    )
).map("".join)
SPANS = st.lists(
    st.sampled_from(
        [
            "words ",
            "&amp;",
            "<text:span>bold <text:tab/></text:span>",
            "<text:s text:c='2'/>",
            "<text:a>a<text:span>b</text:span></text:a>",
            "\n",
            "<text:note><text:p>Of it</text:p></text:note>",
            "<!-- no -->",
        ]
    )
).map("".join)


def package(parts: dict[str, str], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return target.getvalue()


def docx(*paragraphs: str, **parts: str) -> bytes:
    body = "".join(f"<w:p><w:pPr/>{each}</w:p>" for each in paragraphs)
    document = f"<?xml version='1.0'?>\r\n<w:document xmlns:w='w' xmlns:r='r'><w:body>{body}</w:body></w:document>"
    return package({"[Content_Types].xml": "<Types/>", "word/document.xml": document, **parts})


def odt(*paragraphs: str) -> bytes:
    body = "".join(f"<text:p>{each}</text:p>" for each in paragraphs)
    return package(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<o:d xmlns:o='o' xmlns:text='t'>{body}</o:d>",
        }
    )


def body_of(content: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(("document.xml", "content.xml")))
        document = archive.read(name).decode()
    return document.split("<w:body>")[-1].split("</w:body>")[0]


def words(text: str) -> str:
    return re.sub("<[^>]*>", "", text)


@given(st.lists(RUNS).map(lambda texts: docx(*texts)))
def test_a_docx_file_with_its_own_texts_comes_back_byte_for_byte(content):
    file = DOCX.read(content)

    assert file.write([unit.text for unit in file.units]) == content
    assert file.write([None] * len(file.units)) == content


@given(st.lists(SPANS).map(lambda texts: odt(*texts)))
def test_an_odt_file_with_its_own_texts_comes_back_byte_for_byte(content):
    file = ODT.read(content)

    assert file.write([unit.text for unit in file.units]) == content
    assert file.write([None] * len(file.units)) == content


@given(RUNS.map(docx))
def test_the_texts_of_a_written_docx_file_are_those_that_were_written(content):
    file = DOCX.read(content)
    texts = [f"{unit.text}!" for unit in file.units]

    again = DOCX.read(file.write(texts))

    assert [words(unit.text) for unit in again.units] == [words(text) for text in texts]


@given(SPANS.map(odt))
def test_the_texts_of_a_written_odt_file_are_those_that_were_written(content):
    file = ODT.read(content)
    texts = [f"{unit.text}!" for unit in file.units]

    assert [words(unit.text) for unit in ODT.read(file.write(texts)).units] == [words(text) for text in texts]


def test_formats_are_pairs_of_marks_and_what_is_no_text_is_one():
    file = DOCX.read(
        docx(
            "<w:bookmarkStart/><w:r><w:t>One </w:t></w:r><w:r><w:rPr><w:lang w:val='en'/></w:rPr><w:t>more </w:t></w:r>"
            "<w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r><w:r><w:footnoteReference/></w:r><w:r><w:t>.</w:t></w:r>"
        )
    )

    assert [unit.text for unit in file.units] == ["One more <1>bold</1><2/>."]
    assert body_of(file.write(["<1>Fett</1> eins<2/>."])) == (
        '<w:p><w:pPr/><w:bookmarkStart/><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">Fett</w:t></w:r>'
        '<w:r><w:t xml:space="preserve"> eins</w:t></w:r><w:r><w:footnoteReference/></w:r>'
        '<w:r><w:t xml:space="preserve">.</w:t></w:r></w:p>'
    )


def field(instruction: str, result: str) -> str:
    begin, separate, end = (f"<w:r><w:fldChar w:fldCharType='{kind}'/></w:r>" for kind in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText> {instruction} </w:instrText></w:r>{separate}{result}{end}"


RUN = "<w:r><w:t>{}</w:t></w:r>"
AROUND = [
    "<w:hyperlink r:id='1'>{}</w:hyperlink>",
    "<w:ins w:id='1'><w:hyperlink>{}<w:bookmarkEnd/></w:hyperlink></w:ins>",
    "<w:smartTag><w:smartTagPr/><w:smartTag>{}</w:smartTag></w:smartTag>",
    "<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "<w:bdo w:val='rtl'>{}</w:bdo>",
    field('HYPERLINK "http://x"', "{}"),
]


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_runs_is_a_pair_of_marks_and_written_once(around):
    linked = RUN.format("two ") + "<w:r><w:rPr><w:b/></w:rPr><w:t>three</w:t></w:r>"
    file = DOCX.read(docx(RUN.format("One ") + around.format(linked) + RUN.format(" four")))

    assert file.units[0].text.startswith("One <1>two </1><2>three</2>")
    written = body_of(file.write(["<2>Drei</2><1> zwei</1> vier"]))
    before, behind = around.split("{}")
    other = '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">Drei</w:t></w:r><w:r><w:t xml:space="preserve"> zwei'
    assert f"<w:pPr/>{before}{other}</w:t></w:r>{behind.replace('<w:bookmarkEnd/>', '')}" in written


@pytest.mark.parametrize(
    "kept",
    [
        field("REF x", RUN.format("Table 1")),
        field("FORMTEXT", RUN.format("a name")),
        "<w:sdt><w:sdtPr><w:dataBinding/></w:sdtPr><w:sdtContent><w:r><w:t>bound</w:t></w:r></w:sdtContent></w:sdt>",
        "<w:ins>" * 30 + RUN.format("deep") + "</w:ins>" * 30,
    ],
)
def test_text_that_word_writes_is_one_mark(kept):
    file = DOCX.read(docx(RUN.format("See ") + kept + RUN.format(" here")))
    assert [unit.text for unit in file.units] == ["See <1/> here"]
    assert kept in body_of(file.write(["Hier <1/> sehen"]))


def test_the_entries_of_a_table_of_contents_are_texts_and_their_pages_are_not():
    entry = "<w:hyperlink w:anchor='{0}'><w:r><w:t>Part {0}</w:t></w:r><w:r><w:tab/></w:r>{1}</w:hyperlink>"
    entries = [entry.format(number, field("PAGEREF x", RUN.format("7"))) for number in ("one", "two")]
    opened, closed = field("TOC", "<->").split("<->")
    file = DOCX.read(content := docx(opened + entries[0], entries[1], closed))

    assert [unit.text for unit in file.units] == ["Part one", "Part two"]
    both = body_of(content).replace("Part one", "Eins").replace("Part two", "Zwei")
    assert words(body_of(file.write(["Eins", "Zwei"]))) == words(both)


def test_a_mark_that_a_translation_lost_stands_at_the_end():
    for form, content, mark in (
        (DOCX, docx("<w:r><w:t>One</w:t><w:br/><w:t>two</w:t></w:r>"), "<w:r><w:br/></w:r></w:p>"),
        (ODT, odt("One<text:tab/>two"), "zwei<text:tab/></text:p>"),
    ):
        assert mark in body_of(form.read(content).write(["Eins zwei"]))


def test_a_text_box_within_a_paragraph_is_translated_with_it():
    box = "<w:r><w:pict><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:pict></w:r>"
    file = DOCX.read(docx(f"<w:r><w:t>One</w:t></w:r>{box.format('Box')}<w:r><w:t>two</w:t></w:r>"))

    assert [unit.text for unit in file.units] == ["One<1/>two", "Box"]
    written = body_of(file.write(["Eins<1/>zwei", "Kasten"]))
    assert '<w:pict><w:p><w:r><w:t xml:space="preserve">Kasten</w:t></w:r></w:p></w:pict>' in written


def test_headers_and_footnotes_are_translated_and_other_parts_stay():
    parts = {
        name: f"<w:x><w:p><w:r><w:t>Of {name}</w:t></w:r></w:p></w:x>"
        for name in ("word/header1.xml", "word/footnotes.xml", "word/styles.xml")
    }
    file = DOCX.read(content := docx("<w:r><w:t>One</w:t></w:r>", **parts))

    assert [unit.name for unit in file.units] == ["document/1", "footnotes/1", "header1/1"]
    with (
        zipfile.ZipFile(io.BytesIO(content)) as before,
        zipfile.ZipFile(io.BytesIO(file.write([None, "Zwei", None]))) as after,
    ):
        assert before.namelist() == after.namelist()
        assert [name for name in before.namelist() if before.read(name) != after.read(name)] == ["word/footnotes.xml"]


def test_nested_spans_of_odt_stay_nested_and_are_closed():
    file = ODT.read(odt("One <text:span>two <text:a>three</text:a></text:span>"))

    assert [unit.text for unit in file.units] == ["One <1>two <2>three</2></1>"]
    assert "<text:p><text:span><text:a>Drei</text:a></text:span> x</text:p>" in body_of(
        file.write(["<1><2>Drei</1> x</2>"])
    )


@pytest.mark.parametrize("text", ["a & b", "<b>a</b>", "<7/>", "a < b", "\x01"])
def test_a_text_that_would_break_the_file_is_refused(text):
    for form, content in ((DOCX, docx("<w:r><w:t>One</w:t></w:r>")), (ODT, odt("One"))):
        with pytest.raises(SpecError, match="unit 1"):
            form.read(content).write([text])


NESTED = "<w:p><w:r><w:t>x</w:t>" * 5000 + "</w:r></w:p>" * 5000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"PK\x03\x04 no zip", "zip"),
        (b"", "zip"),
        (package({"x": "y"}), "none of the parts"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504, "encrypted"),
        (package({"META-INF/manifest.xml": "<m><encryption-data/></m>", "content.xml": "\x01"}), "encrypted"),
        (package({"word/document.xml": " " * 30_000_000}), "limits"),
        (package({"word/document.xml": "<w:p>"}), "document.xml: line 1"),
        (package({"word/document.xml": "<!DOCTYPE x [<!ENTITY a 'b'>]><w:p>&a;</w:p>"}), "document.xml: line 1"),
        (docx(NESTED), "deep"),
        (docx("<w:r><w:t>One</w:t></w:r>")[:-30], "zip"),
        (package({"word/document.xml": "<w:x/>", "theme": "abc"}, compression=0).replace(b"abc", b"abd", 1), "'theme'"),
    ],
)
def test_bombs_and_broken_files_are_refused(content, why):
    with pytest.raises(CorpusError, match=why):
        DOCX.read(content)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_keeps_the_way_its_parts_are_packed(compression):
    content = package({"word/document.xml": "<w:p><w:r><w:t>One</w:t></w:r></w:p>"}, compression=compression)

    written = DOCX.read(content).write(["Eins"])

    assert "Eins" in body_of(written)
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        assert [info.compress_type for info in archive.infolist()] == [compression]


def with_header(content: bytes, offset: int, value: int) -> bytes:
    """A zip of one part with other two bytes in both of its headers; `offset`: in the first."""
    changed = bytearray(content)
    for header, at in ((0, offset), (content.rindex(b"PK\1\2"), offset + 2)):
        changed[header + at : header + at + 2] = value.to_bytes(2, "little")
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "value", "why"),
    [
        (8, 9, "the part 'word/document.xml' is compressed by deflate64, which is not read here; save the file again"),
        (8, 6, "compressed by method 6"),
        (8, 93, "compressed by zstd"),
        (6, 1, "the file is encrypted; save it without a password"),
    ],
)
def test_a_file_that_is_packed_in_another_way_is_refused_and_says_by_which(offset, value, why):
    content = package({"word/document.xml": "<w:p><w:r><w:t>One</w:t></w:r></w:p>"})

    with pytest.raises(CorpusError, match=why):
        DOCX.read(with_header(content, offset, value))


@pytest.mark.parametrize(
    "piece", ["<w:r><w:t>x</w:t></w:r><w:r><w:b/></w:r>", "<w:hyperlink><w:r><w:t>x</w:t></w:r></w:hyperlink>",
        "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>"
        "<w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t>x y</w:t></w:r>"]
)  # fmt: skip
def test_a_long_paragraph_takes_time_by_its_length(piece):
    start = time.process_time()

    file = DOCX.read(docx(piece * 10_000))
    file.write([unit.text + "!" for unit in file.units])

    assert time.process_time() - start < 4


def part_of(content: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()


STYLES = (
    '<w:styles><w:docDefaults><w:rPrDefault><w:rPr><w:sz/><w:lang w:val="en-US" w:eastAsia="en-US"/></w:rPr>'
    '</w:rPrDefault></w:docDefaults><w:style><w:rPr><w:lang w:val="la"/></w:rPr></w:style><w:style>'
    '<w:lang w:val="en-US"/></w:style>'
    "</w:styles>"
)


@pytest.mark.parametrize(
    ("language", "changed"),
    [
        ("pt-BR", STYLES.replace('val="en-US"', 'val="pt-BR"')),
        ("zh", STYLES.replace('eastAsia="en-US"', 'eastAsia="zh"')),
        ("ar", STYLES.replace('eastAsia="en-US"/>', 'eastAsia="en-US" w:bidi="ar"/>')),
    ],
)  # fmt: skip
def test_the_language_of_a_docx_file_is_that_of_its_default_style(language, changed):
    core = "<c:p><dc:language>en-US</dc:language></c:p>"
    file = DOCX.read(docx("<w:r><w:t>One</w:t></w:r>", **{"word/styles.xml": STYLES, "docProps/core.xml": core}))
    written = file.write([None], language)
    found = part_of(written, "word/styles.xml")
    assert found.partition("</w:docDefaults>")[0] == changed.partition("</w:docDefaults>")[0]
    assert 'w:val="la"/>' in found
    assert part_of(written, "docProps/core.xml") == core.replace("en-US", language)
    assert body_of(written) == body_of(file.package.content)


def test_a_docx_file_whose_default_style_has_no_language_gets_one():
    styles = STYLES.replace('<w:lang w:val="en-US" w:eastAsia="en-US"/></w:rPr>', "</w:rPr>")
    written = DOCX.read(docx("<w:r><w:t>One</w:t></w:r>", **{"word/styles.xml": styles})).write(["Eins"], "de")
    assert part_of(written, "word/styles.xml") == styles.replace("<w:sz/>", '<w:sz/><w:lang w:val="de"/>')


@pytest.mark.parametrize(
    ("language", "western", "asian"),
    [
        ("de", ("de", "none"), ("zh", "CN")),
        ("pt-BR", ("pt", "BR"), ("zh", "CN")),
        ("zh-Hant-TW", ("en", "US"), ("zh", "TW")),
        ("ja", ("en", "US"), ("ja", "none")),
    ],
)
def test_the_language_of_an_odt_file_is_that_of_its_default_style_and_of_styles_that_follow_it(
    language, western, asian
):
    form = 'fo:language="{}" fo:country="{}" style:language-asian="{}" style:country-asian="{}"/>'
    default = '<style:default-style style:family="paragraph"><style:text-properties {}</style:default-style>'
    before = form.format("en", "US", "zh", "CN")
    styles = f"<o:d>{default.format(before)}</o:d>"
    content = f"<o:d><style:text-properties {before}<style:text-properties fo:language='la'/><text:p>One</text:p></o:d>"
    meta = "<o:d><dc:language>en-US</dc:language></o:d>"
    file = ODT.read(package({"content.xml": content, "styles.xml": styles, "meta.xml": meta}))

    written = file.write([None], language)

    after = form.format(*western, *asian)
    assert part_of(written, "styles.xml") == styles.replace(before, after)
    assert part_of(written, "content.xml") == content.replace(before, after)
    assert part_of(written, "meta.xml") == meta.replace("en-US", language)
    assert file.write([None]) == file.package.content
