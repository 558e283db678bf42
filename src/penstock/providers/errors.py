"""What goes wrong before anything is sent: a provider that cannot be made. Not here: `penstock.push.refusals`."""

from __future__ import annotations


class ProviderError(ValueError):
    """`str()` is one line that names the file or setting that is wrong, without anything secret."""
