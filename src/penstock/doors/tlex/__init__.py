"""The TLEX door: a hub that passes payloads between traffic-light controllers, brokers and monitors.

Inside it is plain synchronous classes for which time is an argument (`moment`): `hub` is where to begin reading. The
sockets and the REST routes around it are thin. Specification: TLEX 1.1.1; the codec is `wire.tlex`.
"""
