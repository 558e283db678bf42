"""The data adapter of devices and their push subscriptions, which the server adds to every set: General Concepts 5.5.

What devices and subscriptions are is in `penstock.push`; who adds the adapter and tells it of changes is
`penstock.services.push`. Read next: docs/push.md, "What a client sees".
"""

from penstock.adapters.push.adapter import PushAdapter
from penstock.adapters.push.book import PushBook

__all__ = ["PushAdapter", "PushBook"]
