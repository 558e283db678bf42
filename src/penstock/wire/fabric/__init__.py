"""The protocol between the hub and the edges of one server, over whatever carries payloads between them."""
