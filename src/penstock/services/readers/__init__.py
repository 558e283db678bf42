"""The journal at the API port, for programs on other machines: who may read it, its position, its events by range.

Not here: the journal itself (`penstock.journal`), the history of single things and items (`penstock.doors.ditto`).
Read next: docs/journal.md, "Over the network".
"""
