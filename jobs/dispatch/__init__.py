"""Waking workers, taking back the work of dead ones, and starting and asking worker processes."""
