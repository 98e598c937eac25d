"""Cross-encoders: a pair of texts in, their relevance to each other out."""
