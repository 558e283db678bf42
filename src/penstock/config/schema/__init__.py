"""Every configuration key, declared once: its type, range, default, what it does; a module for a group of sections.

Not here: reading files (loading.py), checks that need two keys or the disk (checks.py), printing.
Read next: config.py for the whole, docs/configuration.md, whose tables are generated from here (reference.py).
"""
