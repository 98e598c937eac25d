"""Resources of .NET."""

import pytest

from jobs.errors import CorpusError
from jobs.files.resources.resx import FORMAT
from jobs.files.translatable import Markup

FILE = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <!-- of Visual Studio -->
  <resheader name="version"><value>2.0</value></resheader>
  <data name="Open" xml:space="preserve">
    <value> Open {0} &amp; &lt;b&gt;close&lt;/b&gt;
</value>
    <comment>Of a &lt;button&gt;</comment>
  </data>
  <data name="Icon" type="System.Drawing.Bitmap, System.Drawing"><value>icon.png</value></data>
  <data name="Bytes" mimetype="application/x-microsoft.net.object.bytearray.base64"><value>AAAA</value></data>
  <data name="&gt;&gt;label.Name" xml:space="preserve"><value>label</value></data>
  <data name="Number" xml:space="preserve"><value>12</value></data>
</root>
"""


def test_strings_are_units_with_their_comments_and_all_else_stays():
    file = FORMAT.read(FILE.encode())
    [unit] = file.units
    assert (unit.name, unit.text, unit.markup, unit.context) == (
        "Open", "Open {0} & <b>close</b>", Markup.HTML, "Of a <button>",
    )  # fmt: skip
    assert file.write([unit.text]) == FILE.encode()
    old, new = "Open {0} &amp; &lt;b&gt;close&lt;/b&gt;", "Öffnen &amp; &lt;b&gt;{0}&lt;/b&gt;"
    assert file.write(["Öffnen & <b>{0}</b>"], "de").decode() == FILE.replace(old, new)


@pytest.mark.parametrize("content", [b"<resources/>", b"", b"<root>", b"<!DOCTYPE root [<!ENTITY a 'b'>]><root/>"])
def test_other_files_are_refused(content):
    with pytest.raises(CorpusError):
        FORMAT.read(content)
