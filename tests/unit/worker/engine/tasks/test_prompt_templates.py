"""Where a template is cut into given and scored text, and that no document or query can change the template."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.tasks.rerank import Method, RerankOptions
from worker.engine.tasks.rerank.prompt_templates import DOCUMENT, QUERY, TEMPLATES, Template

TEXT = st.text("ab {}\n\u3000é", max_size=20) | st.sampled_from(
    ["{query}", "{document}", "{0}", "{", "{{document}}", "%s {query!r}"]
)
AROUND = st.text("xy \n{}", max_size=5)


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        (Method.QUERY_LIKELIHOOD, ("Document: a text\nQuery:", " why?")),
        (Method.PERPLEXITY, ("Query: why?\nDocument:", " a text")),
    ],
)
def test_white_space_before_the_scored_text_belongs_to_it(method: Method, parts: tuple[str, str]) -> None:
    assert Template.parse(TEMPLATES[method]).split("why?", "a text") == parts


def test_white_space_at_the_end_of_the_given_text_is_scored_too() -> None:
    assert Template.parse("{document}{query} \n").split("why?", "a text \n") == ("a text", " \nwhy?")


@given(TEXT, TEXT, AROUND, AROUND, st.booleans())
def test_the_parts_add_up_to_the_filled_template_for_any_texts(
    query: str, document: str, before: str, between: str, scores_query: bool
) -> None:
    first, last = (DOCUMENT, QUERY) if scores_query else (QUERY, DOCUMENT)
    text = before + first + between + last
    texts = {QUERY: query, DOCUMENT: document}
    RerankOptions(method=Method.QUERY_LIKELIHOOD if scores_query else Method.PERPLEXITY, template=text)

    given_text, scored = Template.parse(text).split(query, document)

    assert given_text + scored == before + texts[first] + between + texts[last]
    assert scored.endswith(texts[last])
    assert given_text == given_text.rstrip()


@pytest.mark.parametrize("method", TEMPLATES)
def test_the_default_templates_are_valid(method: Method) -> None:
    RerankOptions(method=method, template=TEMPLATES[method])
    assert Template.parse(TEMPLATES[method]).scores_query is (method is Method.QUERY_LIKELIHOOD)
