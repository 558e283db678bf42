"""Push notifications of the demo: on, to the log, and to browsers; no account is needed for either.

A configuration file comes before this, key by key. The page that uses it is web/notify. Who may register devices is
decided by the demo's metadata adapter (`penstock.adapters.demo.metadata`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from penstock.config.keys import KeyPath

# The application of the TLCP specification's example, and the site that the page registers browsers with.
APPLICATION = "com.mydomain.myapp"
SITE = "demo"

# A field compared with a number.
TRIGGERS = [r"Double\.parseDouble\(\$\[\d+\]\) [<>] [+-]?(\d*\.)?\d+"]

# Push services want to know whom they can write to, and do not write to this address.
CONTACT = "mailto:demo@example.com"

# What Web Push needs beyond what every server has: the extra `push`.
NEEDED = ("hpack", "cryptography")


def demo_push() -> Mapping[KeyPath, object]:
    """Values by the path of their keys."""
    values: dict[KeyPath, object] = {("push", "enabled"): True}
    for platform in ("apple", "google"):
        values["push", platform, APPLICATION, "service_level"] = "test"
        values["push", platform, APPLICATION, "triggers"] = TRIGGERS
    if all(find_spec(name) is not None for name in NEEDED):
        values["push", "web", SITE, "service_level"] = "production"
        values["push", "web", SITE, "contact"] = CONTACT
        values["push", "web", SITE, "triggers"] = TRIGGERS
        # Whoever looks at the page waits for it.
        values["push", "web", SITE, "min_send_delay_millis"] = 0
    return values
