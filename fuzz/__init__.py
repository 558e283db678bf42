"""Fuzzing of the codecs: any bytes give a message or a documented error, quickly, however they are cut.

Run by `make fuzz`; not part of the tests, which have the cases that fuzzing has found.
"""
