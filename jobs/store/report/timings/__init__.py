"""Where the seconds went: sums by phase, step, length, minute and batch."""
