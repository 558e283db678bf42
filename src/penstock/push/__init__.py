"""The rules of push notifications: devices, subscriptions that outlive sessions, formats, triggers, what is sent when.

Plain synchronous classes with the time as an argument, in milliseconds since 1970. No sockets, no database, no HTTP, no
protocol: the outside is behind `ports`. Begin reading at `records`. Doors translate the `refusals`; providers are in
`penstock.providers`; who persists, watches items and sends is `penstock.services.push`. Specification: General
Concepts, chapter 5, where the module is called MPN.
"""
