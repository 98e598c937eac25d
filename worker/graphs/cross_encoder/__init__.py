"""Native graphs of cross-encoders."""
