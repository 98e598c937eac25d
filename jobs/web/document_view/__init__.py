"""What the pages of documents show: excerpts, aligned segments, colours of tokens, moves of candidates, filters."""
