"""Between text and ids: sentences and their gaps, the Marian tokenizer, what a dry run counts."""
