"""The streaming port: HTTP and WebSocket connections, pages, limits per connection and address.

What the requests mean is not decided here but in the protocol folders beside it (`tlcp`).
"""
