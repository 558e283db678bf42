"""Adapters in processes of their own, which connect to this server and speak the ARI line protocol.

`data` and `metadata` are the two adapters that an adapter set names; `link` holds their connections. The lines
themselves are in `penstock.wire.ari`. For users: docs/remote-adapters.md.
"""

from penstock.adapters.remote.data import RemoteDataAdapter
from penstock.adapters.remote.metadata import RemoteMetadataAdapter
from penstock.adapters.remote.settings import ParameterError

__all__ = ["ParameterError", "RemoteDataAdapter", "RemoteMetadataAdapter"]
