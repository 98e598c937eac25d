"""The dashboard: pages over what the store reports, and the few actions on jobs. Never imports models."""
