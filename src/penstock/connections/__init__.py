"""Connections: rules of how messages of brokers become commands of twins, and events of twins become messages. Pure.

What a connection is (`document`), placeholders, payload mapping, enforcement, and the states of a connection. Not here:
brokers (`penstock.brokers`), who runs connections (`penstock.services.connections`). Read next: docs/connections.md.
"""
