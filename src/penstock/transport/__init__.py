"""Ports and connections, for any protocol: listeners, HTTP/1, limits, deadlines, closing, pressure, origins, and the
bridge to an ASGI application.

What requests mean is decided in `penstock.doors`; bytes are read and written by `penstock.wire`.
"""
