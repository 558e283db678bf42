"""Things and policies: their rules, who may do what to them, and their state, which the journal makes durable.

No sockets and no HTTP: doors hand in commands of `penstock.wire.ditto` and send what comes back. Begin at `registry`.
"""
