"""Clients of message brokers, as asyncio shells. Not here: what becomes of a message (`penstock.adapters`)."""
