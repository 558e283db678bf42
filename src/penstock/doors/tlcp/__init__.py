"""The TLCP door: requests to kernel calls, refusals to error codes. Connections are in `doors.stream`.

Specification: TLCP 2.4.0, chapters 2 and 4, appendices A and B.
"""
