"""Marks: what in a text is not for the model (tags, placeholders, addresses), taken out and put back."""
