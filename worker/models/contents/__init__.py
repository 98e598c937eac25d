"""What a model folder holds: a model of which kind, in which layout, and whether its files are all there."""
