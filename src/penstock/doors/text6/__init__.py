"""The door of the older text protocol, version 6.0.2: requests without LS_protocol on the paths of TLCP.

Its bytes are in `wire.text6`, its sessions are the kernel's. Read `door` first.
"""
