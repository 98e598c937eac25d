"""From text to ids and back: sentence segmentation, the tokenizers of causal models, counts for a dry run."""
