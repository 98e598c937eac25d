"""The tokenizer.json of vocabularies in older formats, as transformers converts them."""
