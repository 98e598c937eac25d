"""`kvjobs models split`: a model in stages, on several devices or in several processes."""
