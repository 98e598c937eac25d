"""What bench.stages measures of a model that is cut into stages."""
