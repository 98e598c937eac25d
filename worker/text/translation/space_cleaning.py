"""The setting `clean_up_tokenization_spaces` of a tokenizer."""

_BEFORE_MARKS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def clean_spaces(text: str) -> str:
    """As `clean_up_tokenization` of transformers (tokenization_utils_base.py)."""
    for mark in _BEFORE_MARKS:
        text = text.replace(mark, mark.replace(" ", ""))
    return text
