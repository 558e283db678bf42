"""Erasing an entity wherever it is kept: journal, lake, twins, items and database; a record that it happened stays.

Above all rooms that keep something, because it knows each of them. Read next: docs/history.md, "Erasing".
"""
