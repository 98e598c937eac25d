"""The form of the list as a condition of `--where`."""

import shlex

import pytest

from jobs.errors import SpecError
from jobs.store.where.condition import Condition
from jobs.tasks.task import Task
from jobs.web.document_view.document_filter import DocumentFilter, shell_word


@pytest.mark.parametrize(
    ("asked", "task", "written"),
    [
        (DocumentFilter(), Task.SCORE, None),
        (DocumentFilter(sort="worst"), Task.SCORE, None),
        (DocumentFilter(search="it's"), Task.SCORE, "contains(text, 'it''s')"),
        (DocumentFilter(search="x"), Task.TRANSLATE, "(contains(text, 'x') or contains(translation, 'x'))"),
        (
            DocumentFilter(status="failed", code="engine-error"),
            Task.SCORE,
            "status = 'failed' and error_code = 'engine-error'",
        ),
        (DocumentFilter(flag="unscored"), Task.SCORE, "flags has 'unscored'"),
        (
            DocumentFilter(min_perplexity=2.0, max_perplexity=50.5),
            Task.SCORE,
            "perplexity >= 2 and perplexity <= 50.5",
        ),
        (
            DocumentFilter(max_perplexity=1.0),
            Task.TRANSLATE,
            "-log_prob / num_target_tokens <= 0.0",
        ),
        (DocumentFilter(min_length=3), Task.TRANSLATE, "num_source_tokens >= 3"),
        (DocumentFilter(field="lang", value="de"), Task.SCORE, "lang = 'de'"),
        (DocumentFilter(field="year", value="2020"), Task.SCORE, "(year = '2020' or year = 2020)"),
        (DocumentFilter(field="text", value="true"), Task.SCORE, "(fields.text = 'true' or fields.text = true)"),
        (DocumentFilter(field="my field"), Task.SCORE, '"my field" is not null'),
        (DocumentFilter(status="ok", where=" a = 1 or b = 2 "), Task.SCORE, "status = 'ok' and (a = 1 or b = 2)"),
    ],
)
def test_each_part_of_the_form_is_a_part_of_the_condition(
    asked: DocumentFilter, task: str, written: str | None
) -> None:
    assert asked.written(task) == written


def test_a_job_of_two_models_is_searched_in_the_text_between_them_too() -> None:
    written = DocumentFilter(search="rain").written(Task.TRANSLATE, has_via=True)

    assert written == "(contains(text, 'rain') or contains(translation, 'rain') or contains(via, 'rain'))"
    if written is not None:
        Condition.parse(written)


def test_a_condition_cannot_leave_its_parentheses() -> None:
    with pytest.raises(SpecError, match="does not expect"):
        DocumentFilter(where="line = 1) or (line = 2").written(Task.SCORE)


@pytest.mark.parametrize("word", ["a = 'b'", "$(rm -rf ~) `x` 'y'", 'it\'s "so"', "a\\'b", "!'", "plain", "", "'\n'"])
def test_a_word_of_the_command_reaches_kvjobs_as_it_is(word: str) -> None:
    assert shlex.split(shell_word(word)) == [word]


def test_a_condition_stands_in_double_quotes_where_it_can() -> None:
    assert shell_word("lang = 'de'") == "\"lang = 'de'\""
