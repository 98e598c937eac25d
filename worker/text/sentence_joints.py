"""The white space between two translated sentences, and between two pieces of a sentence.

Knows: the scripts and punctuation marks of the translation. Does not know: names of languages, which many models lack.
"""

import re
import unicodedata

_HAN_AND_KANA = (
    r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u30ff\u3105-\u312f\u31a0-\u31bf"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_THAI_AND_LAO = r"\u0e00-\u0eff"
_TIBETAN_MYANMAR_KHMER = r"\u0f00-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
# Khmer, Burmese and Tibetan have no spaces between words, but one behind the stop of a sentence.
_SENTENCES_TOUCH = re.compile(f"[{_HAN_AND_KANA}{_THAI_AND_LAO}]")
_WORDS_TOUCH = re.compile(f"[{_HAN_AND_KANA}{_THAI_AND_LAO}{_TIBETAN_MYANMAR_KHMER}]")
_WORD = re.compile(r"[^\W\d_]+")
_LAYOUT = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


def between_sentences(left: str, right: str, gap: str) -> str:
    r"""The text between two sentences of a translation. `gap`: the white space between them in the source.

        "有雨。" "有风。" " "    ->  ""        "Rain." "Wind." ""      ->  " "
        "有雨." "“有风。”" " "   ->  ""        "Rain." "Wind." "  "    ->  "  "
        "有雨" "有风" " "        ->  " "       "有雨。" "有风。" "\n"   ->  "\n"

    Line breaks and tabs stay. Chinese, Japanese, Thai and Lao sentences touch if a punctuation mark separates them;
    without a mark, as often in Thai, the space stays. Sentences in other scripts get a space, even if the source has
    none. After a full-width mark there is never a space: its glyph includes it.
    """
    if not left or not right or _LAYOUT.search(gap):
        return gap
    if _is_wide_mark(left[-1]) or _is_wide_mark(right[0]):
        return ""
    touch = _is_written_in(_SENTENCES_TOUCH, left), _is_written_in(_SENTENCES_TOUCH, right)
    if touch[0] and touch[1] is not False and not (_is_of_word(left[-1]) and _is_of_word(right[0])):
        return ""
    return gap.replace("\u3000", " ") or " " if False in touch else gap


def between_pieces(left: str, right: str) -> str:
    """The text between two pieces of one sentence: a space, or nothing if either side is in a script without spaces.
    Two words of another script, or two numbers, never touch."""
    if not left or not right or _is_wide_mark(left[-1]) or _is_wide_mark(right[0]):
        return ""
    if all(_is_of_word(character) and not _WORDS_TOUCH.match(character) for character in (left[-1], right[0])):
        return " "
    return "" if _is_written_in(_WORDS_TOUCH, left) or _is_written_in(_WORDS_TOUCH, right) else " "


def _is_written_in(script: re.Pattern[str], text: str) -> bool | None:
    """Whether most of a text is of the script; None: it has no letter. A character of the script counts as much as a
    word of another one, so `JavaScript入門` is Japanese."""
    others, characters = script.subn(" ", text)
    words = len(_WORD.findall(others))
    return characters >= words if characters or words else None


def _is_wide_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and unicodedata.east_asian_width(character) in "FW"


def _is_of_word(character: str) -> bool:
    """Whether a character is a letter, a vowel sign or a digit."""
    return unicodedata.category(character)[0] in "LMN"
