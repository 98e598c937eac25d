"""The layout of exported graphs, from their configuration, inputs and outputs; no session is opened."""
