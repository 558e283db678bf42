"""How a site says to push services who it is: a token signed with its key, one for each push service.

Not here: where the key is kept (`keys`). Read next: RFC 8292.
"""

from __future__ import annotations

import base64

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from penstock.providers.encryption import write_point
from penstock.providers.http import Origin

# At most a day by the standard; some push services mind clocks that differ.
VALID_SECONDS = 12 * 3_600
RENEW_SECONDS = 6 * 3_600


class Vapid:
    """`public_key` is what a page gives to the browser when it subscribes (`applicationServerKey`)."""

    def __init__(self, key: EllipticCurvePrivateKey, contact: str) -> None:
        self._key = key
        self._contact = contact
        self._made: dict[Origin, tuple[float, str]] = {}
        point = write_point(key.public_key())
        self.public_key = base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    def authorization(self, origin: Origin, now: float) -> str:
        """The header for requests to this origin."""
        made, header = self._made.get(origin, (0.0, ""))
        if header and 0 <= now - made < RENEW_SECONDS:
            return header
        claims = {"aud": f"https://{origin.authority}", "exp": int(now) + VALID_SECONDS, "sub": self._contact}
        header = f"vapid t={jwt.encode(claims, self._key, algorithm='ES256')}, k={self.public_key}"
        self._made[origin] = (now, header)
        return header
