"""What the benchmarks stand on: cores, processes, the server under test, loads, baselines, tables.

Nothing here decides what is measured: see `scenarios`.
"""
