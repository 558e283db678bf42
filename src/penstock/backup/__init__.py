"""Backups of a data directory: made beside a running server (`backup`), and put back (`restore`).

Read next: docs/operations.md, "Backup and restore".
"""
