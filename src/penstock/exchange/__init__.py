"""The rules of the TLEX hub: who may have which controller, where payloads go, when a session must end.

Plain synchronous classes with the time as an argument (`instant`); begin reading at `hub`. No sockets, no JSON, no
datagrams, no HTTP: the outside is behind `ports`, and the door (`doors.tlex`) translates. Specification: TLEX 1.1.1.

Payloads are opaque bytes with a given `Layout`, so that none is copied to be parsed. The terms of the specification
(types, protocols, security modes) come from `wire.tlex.vocabulary`: plain values, which would otherwise be defined
twice. So do the words between the hub and other nodes (`wire.fabric.tlex`), where peers may be connected as well: those
begin at `outpost` and `outposts`.
"""
