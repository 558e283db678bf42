"""Administration of a running server: who may do it, what can be done, and how it is written down.

`guard` asks for a login before anything else, `routes` are the REST API, `steering` does what is asked, `audit` writes
it down. The commands `penstock admin` are a client of it (`penstock.client`). Read next: docs/administration.md.
"""
