"""The tokenizers of translation models, a family each."""
