"""Simulated devices of the demo: traffic-light controllers and things, clients like any other.

They run beside the server of `penstock demo` and reach it through its doors only: controllers speak TLEX, things are
changed over HTTP. Not here: what the server makes of it. Read next: docs/demo.md.
"""
