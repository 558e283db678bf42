"""Bytes to typed messages and back, one folder per protocol.

Pure: no I/O, no clock, no kernel. What a message means is decided in `penstock.doors`.
"""
