"""Models on disk: the folder that a name means, its files, and what they say of the model."""
