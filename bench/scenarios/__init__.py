"""The benchmarks, one a module: what is measured, beside what, and how it is checked.

What they stand on is in `rig`; the servers beside which ours is measured are in `peers`.
"""
