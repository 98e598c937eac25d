"""What keeps work moving whatever dies."""
