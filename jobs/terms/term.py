"""A term of a glossary, and the bounds of one."""

from dataclasses import dataclass

from jobs.errors import SpecError

MAX_TERMS = 200_000
MAX_TERM_CHARACTERS = 500  # of a source, of a target, of a form
MAX_FORMS = 100  # of a target


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """A term and what its translation has to hold: one of `targets`. Texts have no white space around them."""

    source: str
    targets: tuple[str, ...]  # the target, then its other forms
    source_is_cased: bool = False  # whether it is the term in these capital and small letters alone
    target_is_cased: bool = False
    is_whole: bool = True  # whether it is a term between word boundaries alone
    source_language: str = ""  # of the documents it is for; "": of all
    target_language: str = ""
    subset: str = ""  # of the documents that choose it; "": of all


class GlossaryError(SpecError):
    """A glossary that cannot be read: which line, and what is wrong there."""


def checked(term: Term, line: int) -> Term:
    """The term; raises GlossaryError where a text of it is empty, too long, or cannot be stored."""
    if not term.source or not term.targets or not all(term.targets):
        missing = "term" if not term.source else "translation"
        raise GlossaryError(f"line {line}: its {missing} is empty; remove the line or complete it")
    if len(term.targets) > MAX_FORMS:
        raise GlossaryError(f"line {line}: it has more than {MAX_FORMS} forms")
    for text in (term.source, *term.targets):
        if len(text) > MAX_TERM_CHARACTERS:
            raise GlossaryError(f"line {line}: {text[:30]!r}… has more than {MAX_TERM_CHARACTERS} characters")
        if not any(map(str.isalnum, text)):
            raise GlossaryError(f"line {line}: {text[:30]!r} has neither a letter nor a digit")
        if not text.isprintable():
            raise GlossaryError(f"line {line}: it holds a control character")
    return term
