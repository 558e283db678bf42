"""Hub and edges as services: what a server is made of that has clients in other processes, or no data of its own.

The rules between them are in `penstock.cluster`. Read next: docs/cluster.md.
"""
