"""What an identity provider does: a token for a user, valid for an hour. python login.py NAME [ROLE…]"""

import sys
import time
from pathlib import Path

import jwt

name, *roles = sys.argv[1:]
claims = {"sub": name, "roles": roles, "aud": "penstock", "exp": int(time.time()) + 3600}
print(jwt.encode(claims, Path("secret.txt").read_bytes().strip(), "HS256"))
