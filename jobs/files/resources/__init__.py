"""Texts of programs by their keys: .json, .arb."""
