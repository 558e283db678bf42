"""Ports and connections, whatever is said on them: listeners, HTTP/1, limits, deadlines, closing, pressure, origins,
and the bridge to an ASGI application.

What requests mean is decided in `penstock.doors`; bytes are read and written by `penstock.wire`.
"""
