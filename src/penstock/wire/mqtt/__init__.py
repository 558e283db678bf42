"""MQTT 3.1.1 and 5, the client's side: packets as bytes and back, and what client and broker owe one another.

Not here: sockets, deadlines (`penstock.brokers.mqtt`). Read next: the OASIS standard, chapters 3 and 4.
"""
