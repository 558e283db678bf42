"""The protocol doors: asyncio shells that map wire messages to kernel calls and back, one folder per protocol.

`stream` is the port that the text protocols share. Adapters and the kernel's rules are elsewhere; `penstock.server`
connects them.
"""
