"""The two builds of the kernel and the wire: which one runs (`choice`), and how the compiled one is made (`compiler`).

Both come from the same sources and do the same. Read next: docs/compiled.md.
"""
