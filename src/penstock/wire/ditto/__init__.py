"""The Ditto protocol: envelopes and topics, streaming subscriptions, twin commands and events, RQL.

Read `envelope` first, then `streaming` with its state machine in `subscriptions`, and `twin`. No store is known here.
Specification: "Streaming subscription protocol specification" of Eclipse Ditto; docs/ditto.md for our own choices.
"""
