"""Push notifications at work: what the rules decide is persisted, items are watched, notifications are sent.

The rules are in `penstock.push`, requests come from `penstock.doors.tlcp`. Begin reading at `engine`; `desk` answers
clients, `agenda` has what waits to be persisted, `flights` what is on its way, `watches` follows items, and `service`
puts all of it together. Read next: docs/push.md.
"""
