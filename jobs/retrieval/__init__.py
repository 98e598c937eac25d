"""Rankings as other programs read them, judgements, and how good a ranking is by them."""
