"""What a test reads in a message: the names, numbers and states of one line, not the words between them."""

import re


def line_with(text: str, *facts: str) -> str:
    """The part of a line of `text` that holds all `facts` in this order; "" if no line does.

    A fact may contain line ends; between two facts there is none.
    """
    found = re.search(".*".join(map(re.escape, facts)), text)
    return found[0] if found else ""
