"""What people read: progress, totals, steps, exports, workers, and their own queries."""
