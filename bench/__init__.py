"""Benchmarks: each one starts real server processes, loads them from this process, checks every answer and prints
figures beside a baseline measured in the same run.

No figure is printed for work that was not verified. The benchmarks are in `scenarios`, what they stand on in `rig`, the
servers beside which ours is measured in `peers`, the programs in C in `native`. Read next: docs/performance.md.
"""
