"""Benchmarks: each one starts real server processes, loads them from this process, checks every answer and prints
figures beside a baseline measured in the same run.

No figure is printed for work that was not verified. Read next: docs/performance.md.
"""
