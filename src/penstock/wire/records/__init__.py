"""Records of message brokers: how their bytes are decoded, templates on their parts, and how they become events.

Not here: what is kept of them (adapters/brokers), connections to brokers. Read next: docs/brokers.md, "Templates".
"""
