"""The embedded relational database: accounts, what they may do, their tokens, controllers, past sessions; devices.

Everything here blocks: `store` is asked on a thread (`thread`). What the rows mean to a protocol is decided in its
door. Tables are in `schema`, rows as Python sees them in `records`.
"""
