"""schemathesis against the door: what it makes of the OpenAPI document is answered as documented, and never with 5xx.

It is run as a program. A longer search also goes through each boundary of each schema.
"""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from penstock.doors.ditto.openapi.document import OPERATIONS, PLACE
from penstock.services.connections.openapi import OPERATIONS as OF_CONNECTIONS
from tests.adapters.access.world import password_of
from tests.doors.ditto.site import Site, policy
from tests.support.administration import basic, write_users

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"

# Requests at random for each operation.
EXAMPLES = 100 if LONG else 2
PHASES = "examples,coverage,fuzzing" if LONG else "fuzzing"

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)

# All statuses that say no; after 202 nobody is told what was wrong.
REFUSED = "202, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 421, 424"

# Seconds that a run may take.
PATIENCE = 3_000 if LONG else 120

pytestmark = pytest.mark.timeout(PATIENCE + 10)


def test_whatever_is_asked_is_answered_as_documented(tmp_path: Path) -> None:
    write_users(tmp_path / "admins")
    with Site(tmp_path / "site", {"admin.users": str(tmp_path / "admins")}) as site:
        alice = site.of("alice")
        alice.put("/policies/org.example:roles", json=policy())
        made = alice.put(
            "/things/org.example:lamp",
            json={"attributes": {"a": 1}, "features": {"f": {"properties": {"a": 1}}}, "_policy": policy()},
        )
        assert made.status_code == 201, made.text
        settings = tmp_path / "schemathesis.toml"
        settings.write_text(f"[checks.negative_data_rejection]\nexpected-statuses = [{REFUSED}]\n")
        program = Path(sys.executable).parent / "schemathesis"
        command = [str(program), "--config-file", str(settings), "run", f"{site.client().base_url}{PLACE[1:]}"]
        command += ["--checks", ",".join(CHECKS), "--phases", PHASES, "--max-examples", str(EXAMPLES)]
        command += ["--continue-on-failure", "--warnings", "off", "--no-color", "--workers", "2"]
        if not LONG:
            command += ["--seed", "1", "--no-shrink"]
        # Without those of the machine: a proxy is not to be asked for what is on this one.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        shown = b64encode(f"alice:{password_of('alice')}".encode()).decode()
        environment |= {
            "SCHEMATHESIS_HOOKS": "tests.doors.ditto.openapi.requests",
            "PYTHONPATH": str(Path(__file__).parents[4]),
            "USER_OF_TWINS": f"Basic {shown}",
            "ADMINISTRATOR": basic("root"),
        }
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        count = len(OPERATIONS) + len(OF_CONNECTIONS)
        assert f"Operations:       {count} selected / {count} total" in done.stdout
