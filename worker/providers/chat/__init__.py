"""What every server is asked to translate or to continue, and the outcome that an answer makes."""
