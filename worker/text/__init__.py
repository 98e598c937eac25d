"""From text to ids and back: sentence segmentation, the tokenizers of both model families, counts for a dry run."""
