"""More cores and more machines: hubs own items and decide, edges have clients, and a fabric lies between them.

What hubs and edges owe each other is pure: time and payloads are arguments (`owner`, `reader`, `calling` and more). The
shells around it wait for calls, fabrics and processes. Read next: `ports`; docs/architecture.md says which is which.
"""
