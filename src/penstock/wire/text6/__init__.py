"""The older text protocol of Lightstreamer clients ("text mode"), version 6.0.2.

Requests are parsed in `requests`, answered with `answers`, push contents are built in `codec` with the values of
`values`. The client's side, for tests and tools, is in `push` and `reader`. Specification: Network Protocol Tutorial
6.0.2, chapter 4.
"""
