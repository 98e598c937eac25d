"""Models on disk: which folder a name means, what its graphs say, what a person may know about it."""
