"""Stages of split models in processes of their own: how objects there are called, with arrays in shared memory."""
