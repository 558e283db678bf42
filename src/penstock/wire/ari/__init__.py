"""The line protocol of remote adapters ("ARI"), versions 1.8.2 to 1.9.1, seen from the server: the "proxy adapter".

What an adapter sends comes through `lines` and `packets` (`notifications` and `replies` are its parts), what it is sent
is built in `requests`. The adapter's side, for tests and tools, is `peer`.
"""
