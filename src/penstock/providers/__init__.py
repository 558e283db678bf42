"""Who carries push notifications to devices: a log, Apple, Google, browsers' push services.

Each implements `penstock.push.ports.Provider`; `catalogue` makes those of the configuration. Not here: what is sent
when and how often it is tried again (`penstock.push`). Read next: docs/push-providers.md.
"""
