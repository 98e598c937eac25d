"""Rankings in the formats of other programs, relevance judgements, and measures of rankings."""
