"""What stands between two sentences of a translation, and between two pieces of a sentence."""

import pytest

from worker.engine.tasks.document_assembly import between_pieces, between_sentences


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("周一有雨。", "周二有风。"),
        ("他说：“有雨。”", "她说：“有风。”"),
        ("他说：「有雨。」", "「有风。」"),
        ("有雨（北部）", "有风"),
        ("有雨(北部)", "有风"),
        ("周一有雨.", "周二有风."),
        ("有雨吗?", "有风!"),
        ("有雨……", "有风。"),
        ("他用 Linux.", "它很好。"),
        ("有雨.", "Arden 的气压正在上升。"),
        ("有雨。", "Arden is in the north."),
        ("Rain is expected。", "Wind is rising。"),
        ("JavaScript入門。", "Python入門。"),
        ("雨です。", "風です。"),
        ("本当！？", "「はい」"),
        ("アメデス!", "カゼ"),
        ("ฝนจะตก.", "ลมแรง"),
        ("เขาพูดว่า “ฝนตก”", "ลมแรง"),
        ("ຝົນຕົກ.", "ລົມແຮງ"),
        ("气温为 5 度.", "12:30"),
    ],
)
@pytest.mark.parametrize("gap", ["", " ", "  ", "\u00a0", "\u3000"])
def test_sentences_of_a_script_without_spaces_touch(left: str, right: str, gap: str) -> None:
    assert between_sentences(left, right, gap) == ""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Rain is expected.", "The wind is rising."),
        ('He said: "Rain."', "(Wind.)"),
        ("The word 你好 means hello.", "The word 再见 means goodbye."),
        ("The word is 你好", "It means hello."),
        ("See Linux.", "它很好。"),
        ("价格为 5 元.", "Rain is expected."),
        ("비가 온다.", "바람이 분다."),
        ("बारिश होगी।", "हवा चलेगी।"),
        ("ភ្លៀង។", "ខ្យល់។"),
        ("မိုးရွာသည်။", "လေတိုက်သည်။"),
        ("1.", "Rain is expected."),
    ],
)
def test_sentences_of_other_scripts_have_a_space_whatever_the_source_has(left: str, right: str) -> None:
    assert [between_sentences(left, right, gap) for gap in ("", " ", "  ", "\u3000")] == [" ", " ", "  ", " "]


@pytest.mark.parametrize(("left", "right"), [("ฝนจะตกทางเหนือ", "ลมแรง"), ("第一章", "有雨"), ("ຝົນຕົກ", "ລົມແຮງ")])
@pytest.mark.parametrize("gap", ["", " ", "\u3000"])
def test_a_space_stays_where_nothing_else_shows_that_a_sentence_ends(left: str, right: str, gap: str) -> None:
    """Thai has no full stop: there a space ends the sentence."""
    assert between_sentences(left, right, gap) == gap


@pytest.mark.parametrize("gap", ["\n", " \n\n  ", "\t", "\r\n", "\u2028"])
@pytest.mark.parametrize(("left", "right"), [("有雨。", "有风。"), ("Rain.", "Wind."), ("", "有风。")])
def test_lines_and_columns_of_the_source_stay(left: str, right: str, gap: str) -> None:
    assert between_sentences(left, right, gap) == gap


@pytest.mark.parametrize(("left", "right"), [("42", "- 7 -"), ("", "Rain."), ("Rain.", "")])
@pytest.mark.parametrize("gap", ["", " ", "\u3000"])
def test_without_letters_on_either_side_the_gap_of_the_source_stays(left: str, right: str, gap: str) -> None:
    assert between_sentences(left, right, gap) == gap


@pytest.mark.parametrize(
    ("left", "right", "joint"),
    [
        ("Der Hund", "bellt.", " "),
        ("那只狗", "在叫。", ""),
        ("犬は", "ほえる", ""),
        ("Das ist", "那只狗", ""),
        ("개가", "짖는다", " "),
        ("ភ្លៀង", "ធ្លាក់", ""),
        ("ฝน(ตก)", "“ลม”", ""),
        ("那只狗叫 Tom", "Brown，在叫", " "),
        ("有雨 5", "3 级风", " "),
        ("有雨,", '"有风"', ""),
        ("", "word", ""),
        ("word", "", ""),
    ],
)
def test_pieces_of_a_sentence_are_joined_by_their_script(left: str, right: str, joint: str) -> None:
    assert between_pieces(left, right) == joint
