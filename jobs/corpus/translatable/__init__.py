"""A corpus of files whose texts are translated, and which come back as they were."""
