"""Connections at work: they bring messages of brokers to twins, and events of twins to brokers.

The rules are in `penstock.connections`, brokers in `penstock.brokers`. Read next: docs/connections.md.
"""
