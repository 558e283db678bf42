"""TLCP, the text push protocol of Lightstreamer clients, versions 2.0 to 2.5.

Requests are parsed in `requests`, answers and notifications are built in `lines` and `codec`, field values in `values`.
Specification: TLCP 2.4.0, chapters 1 to 3; docs/decisions.md for what 2.5 adds.
"""
