"""Digital twins for Ditto clients: HTTP, server-sent events and WebSocket, all over one `service`.

What things are is in `penstock.twins`, what messages are in `penstock.wire.ditto`. Read next: docs/ditto.md.
"""
