"""A document as a sequence of spans: sentences, sentences without letters, and white space."""

import itertools

import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st

from worker.text.segments import WINDOW, Span, segment

FRAGMENTS = [
    "Rain. ", "Dr. Smith ", "What?! ", "e.g. ", "(a) ", "\"Yes.\" ", "42", "- ", "...", "你好。", "雨，", "שלום. ",
    "\u202e", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", " ", "\u00a0", "\u3000",
    "\u200b", "\ufeff", "\x00", "\ud800", "\udfff", "😀", "e\u0301", "A\u00a0.", "C\u3000.", ".", "।", "\u0e01",
]  # fmt: skip
any_text = st.text(st.characters(exclude_categories=[]))
likely_text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=2)).map("".join)
languages = st.sampled_from(["en", "zh", "de", "fr", "ja", "ar", "hi", "da", "ca", "it", "xx", "", "EN_us", "zho"])


def texts_of(text: str, language: str = "en") -> list[str]:
    return [span.text for span in segment(text, language) if span.translatable]


@given(text=any_text | likely_text, language=languages)
@example(text="vitamin C\u00a0. Next.", language="en")
@example(text="U.S\u3000.\r\n\u2028A\x85.", language="fr")
def test_the_spans_add_up_to_the_document(text, language):
    assert "".join(span.text for span in segment(text, language)) == text


@given(text=any_text | likely_text, language=languages)
def test_spans_are_sentences_letterless_sentences_or_white_space(text, language):
    for span in segment(text, language):
        if span.translatable:
            assert not span.letterless
            assert any(map(str.isalpha, span.text))
        else:
            assert span.letterless != span.text.isspace()
            assert not any(map(str.isalpha, span.text))
        if not span.text.isspace():
            assert span.text == span.text.strip()
            assert len(span.text.splitlines()) == 1


@given(text=any_text | likely_text, language=languages)
def test_white_space_is_one_span_between_sentences(text, language):
    gaps = [span.text.isspace() for span in segment(text, language)]

    assert not any(first and second for first, second in itertools.pairwise(gaps))


def test_a_document_is_cut_at_line_breaks_and_between_sentences():
    assert segment("Hi.  How are you?\n- 42 -\n", "en") == [
        Span("Hi.", translatable=True),
        Span("  ", translatable=False),
        Span("How are you?", translatable=True),
        Span("\n", translatable=False),
        Span("- 42 -", translatable=False, letterless=True),
        Span("\n", translatable=False),
    ]


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\n\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_a_line_break_ends_a_sentence_without_a_full_stop(line_break):
    assert texts_of(f"The title{line_break}and the text") == ["The title", "and the text"]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\u00a0\u3000"])
def test_white_space_alone_has_no_sentence(text):
    assert texts_of(text) == []
    assert [span.text for span in segment(text, "en")] == ([text] if text else [])


@pytest.mark.parametrize("text", ["-", "42", "3.14", "???", "😀", "\u200b", "①", "12:30 — 14:00", "* * *"])
def test_a_sentence_without_a_letter_passes_through(text):
    spans = segment(text, "en")

    assert all(span.letterless or span.text.isspace() for span in spans)
    assert any(span.letterless for span in spans)


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "Dr. Smith paid 3.5 dollars, e.g. for tea. He left.", 2),
        ("zh", "今天下雨。明天呢？不知道！", 3),
        ("ja", "今日は雨です。明日は？", 2),
        ("ar", "كيف حالك؟ أنا بخير.", 2),
        ("hi", "आज बारिश है। कल नहीं।", 2),
        ("de", "Das kostet z. B. 3 Euro. Es regnet.", 2),
    ],
)
def test_sentences_are_split_by_the_rules_of_their_language(language, text, sentences):
    assert len(texts_of(text, language)) == sentences


@pytest.mark.parametrize("code", ["de", "DE", "deu", "ger", "de-AT", "de_Latn", " de "])
def test_every_code_of_a_language_is_recognized(code):
    """The rules of English would cut after the ordinal."""
    text = "Am 3. Oktober regnet es."

    assert texts_of(text, code) == [text]
    assert len(texts_of(text, "en")) == 2


@pytest.mark.parametrize("code", ["xx", "", "no-such-language", "ΩΩ", "\ud800"])
def test_an_unknown_language_is_split_like_english(code):
    assert texts_of("One. Two.", code) == ["One.", "Two."]


@pytest.mark.parametrize("space", ["\x85", "\u00a0", "\u2009", "\u202f", "\u3000", " \u00a0\u00a0", "\u3000 \u3000"])
def test_a_wide_space_before_a_full_stop_does_not_break_the_splitter(space):
    """sentencex panics on it, which would leave the line unsplit."""
    assert texts_of(f"She takes C{space}. Rain fell. Snow fell.")[-1] == "Snow fell."


def test_a_panic_of_the_splitter_leaves_the_line_unsplit(monkeypatch):
    class PanicException(BaseException):
        pass

    def panics(language: str, text: str) -> list[str]:
        raise PanicException("not a char boundary")

    monkeypatch.setattr(sentencex, "segment", panics)

    assert texts_of("One. Two.\nThree.") == ["One. Two.", "Three."]


def test_an_interrupt_is_not_taken_for_a_panic(monkeypatch):
    def interrupted(language: str, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(sentencex, "segment", interrupted)

    with pytest.raises(KeyboardInterrupt):
        segment("One.", "en")


@pytest.mark.parametrize("odd", [[], ["One"], ["one. ", "two."], ["One. ", "", "Two.", "Two."]])
def test_a_split_that_alters_the_text_is_ignored(monkeypatch, odd):
    monkeypatch.setattr(sentencex, "segment", lambda language, text: odd)

    assert texts_of("One. Two.") == ["One. Two."]


def test_an_empty_sentence_of_the_splitter_is_skipped(monkeypatch):
    monkeypatch.setattr(sentencex, "segment", lambda language, text: ["", text])

    assert "".join(texts_of("rain " * WINDOW)).replace(" ", "") == "rain" * WINDOW


# --- long lines


@given(st.integers(0, WINDOW // 8), st.sampled_from(["Rain fell at {}. ", "{}号下雨。", "What? {} (no). "]))
def test_a_long_line_is_split_into_its_sentences(first, pattern):
    sentences = [pattern.format(f"Kelso{i}") for i in range(first, first + WINDOW // 4)]

    assert texts_of("".join(sentences)) == [text for sentence in sentences for text in texts_of(sentence)]


def test_a_sentence_longer_than_a_window_is_split_after_a_word():
    text = "rain " * WINDOW

    spans = segment(text, "en")

    assert "".join(span.text for span in spans) == text
    assert all(set(span.text.split()) == {"rain"} for span in spans if span.translatable)
    assert all(len(span.text) <= WINDOW for span in spans)


@pytest.mark.parametrize("pattern", ["下雨了。", "A。」", "``a ", "`", "“A. B” ", "rain ", "x", "\u00a0.", "a\n"])
def test_the_splitter_gets_windows_and_each_character_at_most_twice(monkeypatch, pattern):
    """Its time grows with the square of its input: 1.6 s for 100,000 characters of Chinese on one line."""
    handed = []
    real = sentencex.segment

    def recorded(language: str, text: str) -> list[str]:
        handed.append(len(text))
        return real(language, text)

    monkeypatch.setattr(sentencex, "segment", recorded)
    text = (pattern * 10 * WINDOW)[: 10 * WINDOW]

    assert "".join(span.text for span in segment(text, "en")) == text
    assert max(handed) <= WINDOW
    assert sum(handed) <= 2 * len(text)
