"""Models on disk: the folder that a name means, its files, and the properties of the model that they give."""
