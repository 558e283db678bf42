"""schemathesis against the administration: what it makes of the OpenAPI document is answered as documented, and never
with 5xx.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.phrases import add, batch
from tests.services.admin.site import AdminSite
from tests.support.administration import basic

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"

# Requests at random for each operation.
EXAMPLES = 100 if LONG else 6

# Right by their form, requests may still be refused with 422: a block for all has no name, and a code above 0 is one of
# two. The last is about logins taken away; where the program adds one to each request, it cannot.
EXCLUDED = "positive_data_acceptance,ignored_auth"

# Seconds that a run may take.
PATIENCE = 1_200 if LONG else 110

# Each boundary of each schema is gone through once, by the user who may do all; a longer search does so for both.
PHASES = {"root": "examples,coverage,fuzzing", "eve": "examples,coverage,fuzzing" if LONG else "examples,fuzzing"}

OPERATIONS = 32

pytestmark = pytest.mark.timeout(PATIENCE + 10)


@pytest.mark.parametrize("user", PHASES)
def test_whoever_asks_is_answered_as_documented(site: AdminSite, tmp_path: Path, user: str) -> None:
    streams = [site.exchange.stream() for _ in range(3)]
    for stream in streams:
        batch(site.exchange, stream.session, add())
    bearer = site.ask("POST", "/login", authorization=basic(user)).body["token"]
    program = Path(sys.executable).parent / "schemathesis"
    command = [str(program), "run", f"http://127.0.0.1:{site.api_port}/api/admin/openapi.json", "--checks", "all"]
    command += ["--exclude-checks", EXCLUDED, "--max-examples", str(EXAMPLES), "--continue-on-failure"]
    command += ["--warnings", "off", "--no-color", "--header", f"Authorization: Bearer {bearer}"]
    # Not to give the token back, with which all others are made.
    command += ["--exclude-operation-id", "logout_login_delete", "--phases", PHASES[user]]
    if not LONG:
        command += ["--seed", "1", "--no-shrink"]
    # Without those of the machine: a proxy is not to be asked for what is on this one.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Operations:       {OPERATIONS - 1} selected / {OPERATIONS} total" in done.stdout
    for stream in streams:
        stream.http.close()
