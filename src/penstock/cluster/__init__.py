"""More cores and more machines: hubs own items and decide, edges have clients, and a fabric lies between them.

Everything but `local` and `nats` is pure: time and payloads are arguments. Read next: `ports`, docs/cluster.md.
"""
