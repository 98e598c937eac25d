"""Web pages."""

import html
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.errors import CorpusError
from jobs.files.markup.html_pages import FORMAT
from jobs.files.translatable import Markup

PIECES = """
<p>;</p>;<b>;</b>;<a href='x' title=Some>;</a>;<img alt="A cat">;<br/>;<code>;</code>;<pre>;</pre>;<script>;</script>;
<!--;-->;<!;<?;?>;<;>;";';=;&amp;;&;words ;Ä ö;\r\n; ;<title>;</title>;<html lang=en>;<html>;<div translate=no>;</div>;
<i class='x notranslate'>;</i>;<meta name=description content='Of it'>;<input placeholder=Name>;</;/>;<p
"""
PAGES = st.lists(st.sampled_from(PIECES.split(";"))).map("".join)


def texts(content: str) -> list[str]:
    return [unit.text for unit in FORMAT.read(content.encode()).units]


@given(PAGES.map(str.encode) | st.binary() | PAGES.map(lambda page: page.encode("utf-16")))
@example("<meta charset=shift_jis><p>日本語".encode("shift_jis"))
@example("<meta charset=utf-8><p>größe".encode("latin-1"))
@example(b"\xfe\xff\x00")
def test_a_page_with_its_own_texts_comes_back_byte_for_byte(content):
    try:
        page = FORMAT.read(content)
    except CorpusError:  # of half a character of UTF-16, and of encodings that are neither UTF-8 nor windows-1252
        assert content.startswith((b"\xfe\xff", b"\xff\xfe")) or len(content) > 20
        return

    assert page.write([unit.text for unit in page.units]) == content
    assert page.write([None] * len(page.units)) == content


@given(PAGES)
def test_bytes_outside_of_the_units_stay_and_units_are_found_again(content):
    page = FORMAT.read(content.encode())
    marked = [unit.text.replace("words", "mots") for unit in page.units]

    again = FORMAT.read(page.write(marked))

    assert [unit.text.replace("words", "mots") for unit in again.units] == marked


@pytest.mark.parametrize(
    ("page", "units"),
    [
        ("<p> One <b>more</b>. </p><p>Two", ["One <b>more</b>.", "Two"]),
        ("<p><b>One</b></p>", ["One"]),
        ("<p><a href=x><i>On</i>e</a> <img src=x> </p>", ["<i>On</i>e"]),
        ("<p><b>One</b> and <i>two</i></p>", ["<b>One</b> and <i>two</i>"]),
        ("<li>1.</li><td>&nbsp;</td><td>&auml;h</td><td>x-1</td>", ["&auml;h"]),
        ("<p>Call <code>f(x)</code> now</p><p><code>f(x)</code></p>", ["Call <code>f(x)</code> now"]),
        ("<pre>One <b>two</b></pre><p>Three</p>", ["Three"]),
        ("<script>if (a<b) '<p>x'</script><style>p{}</style><title> It </title>", ["It"]),
        ("<div translate=no><div>One</div>Two</div>Three", ["Three"]),
        ("<p>By <span class='a notranslate'>Kv<i>jobs</i></span> it is</p>", None),
        ('<meta content="Of it" name="Description"><meta name=x content=No>', ["Of it"]),
        ("<meta property=\"og:description\" content='Of it'>", ["Of it"]),
        ('<input type=submit value="Send it"><input value="no">', ["Send it"]),
        ('<button aria-label="Close it">x</button>', ["Close it"]),
        ('<p>See <img alt="A cat"> here</p>', ['See <img alt="A cat"> here', "A cat"]),
        ("<!-- <p>One</p> --><p>Two<!-- never", ["Two"]),
        ("One <a href='never closed", ["One"]),
        ("a < b and 3 <4", ["a < b and 3 <4"]),
        ("<p>One <code>never closed</p><p>Two", ["One <code>never closed"]),
    ],
)
def test_the_texts_of_blocks_and_of_attributes_are_units(page, units):
    assert texts(page) == (units or [page.removeprefix("<p>").removesuffix("</p>")])


def test_attributes_within_a_text_are_translated_in_it_wherever_their_tags_go():
    page = FORMAT.read(b'<p>See <img alt="Cat"> and <img alt="Cat"> here</p>')

    written = page.write(['<img alt="Cat"> Und <img alt="Cat"> sehen', "Katze", "Kater"])

    assert written == b'<p><img alt="Katze"> Und <img alt="Kater"> sehen</p>'


def test_a_translated_attribute_keeps_to_its_quotes():
    page = FORMAT.read(b"<img alt=Cat><img alt='Cat'><img alt=\"Cat\">")

    assert page.write(["a 'b' \"c\""] * 3) == (
        b"<img alt=\"a 'b' &quot;c&quot;\"><img alt='a &#39;b&#39; \"c\"'><img alt=\"a 'b' &quot;c&quot;\">"
    )


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<html><p>One", '<html lang="de"><p>Eins'),
        ("<HTML class=x LANG=en><p>One", '<HTML class=x LANG="de"><p>Eins'),
        ("<html lang='en' xml:lang=\"en\"><p>One", "<html lang='de' xml:lang=\"de\"><p>Eins"),
        ("<p>One", "<p>Eins"),
    ],
)
def test_the_page_says_the_language_of_its_texts(page, written):
    assert FORMAT.read(page.encode()).write(["Eins"], "de") == written.encode()


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("windows-1251", "cp1251", "Привет, мир"),
        ("gb18030", "gb18030", "你好，世界 😀"),
        ("shift_jis", "shift_jis", "こんにちは〜"),
        ("Shift_JIS", "cp932", "こんにちは①～"),
        ("x-sjis", "shift_jis", "こんにちは"),
        ("gb2312", "gbk", "你好，世界 朱镕基"),
        ("gbk", "gb18030", "你好，世界 😀"),
        ("big5", "big5hkscs", "你好 嘅"),
        ("ks_c_5601-1987", "cp949", "안녕하세요 뷁"),
        ("euc-jp", "euc_jp", "こんにちは"),
        ("iso-2022-jp", "iso2022_jp", "こんにちは"),
        ("tis-620", "cp874", "สวัสดี"),
        ("iso-8859-9", "cp1254", "İstanbul “güzel”"),
        ("koi8-r", "koi8-r", "Привет, мир"),
        ("x-mac-cyrillic", "mac_cyrillic", "Привет, мир"),
        ("utf-16", "utf-8", "größe"),
        ("no-such", "utf-8", "größe"),
    ],
)
@pytest.mark.parametrize(
    "meta", ["<meta charset={}>", '<META content="text/html; charset={}" http-equiv=content-type>']
)
def test_a_page_comes_back_in_the_encoding_that_it_declares(meta: str, label: str, codec: str, text: str) -> None:
    head, tail = (meta.format(label) + f"<!-- {text} -->\r\n<p>").encode(codec), f"</p>\n<p lang=x>{text}".encode(codec)
    page = FORMAT.read(head + text.encode(codec) + tail)

    written = page.write(["1 ¥, 2 £, Ж, 日 ‾ \u2212 \U0001f600", None])

    assert [unit.text for unit in page.units] == [text, text]
    assert (written[: len(head)], written[-len(tail) :]) == (head, tail)
    assert html.unescape(written[len(head) : -len(tail)].decode(codec)) == "1 ¥, 2 £, Ж, 日 ‾ \u2212 \U0001f600"
    assert page.write([text, text]) == head + text.encode(codec) + tail


def test_characters_that_the_encoding_of_a_page_lacks_are_references():
    content = "<meta charset=iso-8859-1><p>größe".encode("latin-1")

    assert FORMAT.read(content).write(["5 € 日"]) == b"<meta charset=iso-8859-1><p>5 \x80 &#26085;"


def test_units_are_html():
    assert {unit.markup for unit in FORMAT.read(b"<title>One</title><p>Two").units} == {Markup.HTML}


@pytest.mark.parametrize(
    "piece",
    ["<b>", "<p>", "<a ", "<a x='", '<a x="', "<!--", "<?", "<!", "<", "</", "<script>", "<b>x", "x<img alt=y>", "a=/"],
)
def test_a_hostile_page_takes_time_by_its_length(piece):
    def seconds(count: int) -> float:
        start = time.process_time()
        page = FORMAT.read(f"<p>Text {piece * count} end".encode())
        page.write([unit.text + " x" for unit in page.units])
        return time.process_time() - start

    assert seconds(10_000) < 2  # minutes, were it quadratic
