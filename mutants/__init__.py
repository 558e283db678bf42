"""Mutants: small faults planted in the rules and codecs, to see whether the nearest tests notice them.

Run by `make mutants`, in copies of the project. What a test must do is not said here: a survivor is answered by a new
test, by simpler code, or by a reason in explained.toml.
"""
