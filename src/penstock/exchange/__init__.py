"""The rules of the TLEX hub: who may have which controller, where payloads go, when a session must end.

Plain synchronous classes for which time is an argument (`instant`); `hub` is where to begin reading. No sockets, no
JSON, no datagrams, no HTTP: the world is behind `ports`, and the door (`doors.tlex`) translates. Specification: TLEX
1.1.1.

Payloads are opaque bytes whose `Layout` is given, so that none is copied to be understood. The words of the
specification (types, protocols, security modes) are those of `wire.tlex.vocabulary`: plain values without a form, which
would otherwise be there twice.
"""
