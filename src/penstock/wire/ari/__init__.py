"""The line protocol of remote adapters ("ARI"), versions 1.8.2 to 1.9.1, seen from the server: the "proxy adapter".

What an adapter sends is read by `lines` and `packets` (of which `notifications` and `replies` are parts); what the
server sends is built in `requests`. The adapter's side, for tests and tools, is `peer`.
"""
