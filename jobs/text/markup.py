"""The markup of a text."""

import enum


class Markup(enum.StrEnum):
    """What in a text is no word: tags and entities, or the signs of Markdown."""

    NONE = "none"
    HTML = "html"
    XML = "xml"
    MD = "md"
