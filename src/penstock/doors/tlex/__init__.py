"""The TLEX door: the asyncio shell around the hub, which passes payloads between controllers, brokers and monitors.

Ports, REST, the clock, the database and the journal; begin with `door`. The rules are in `exchange`, the codec in
`wire.tlex`. Specification: TLEX 1.1.1.
"""
