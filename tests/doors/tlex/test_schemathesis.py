"""schemathesis against the hub: what it makes of the OpenAPI document is answered as documented, and never with 5xx.

It is run as a program, with all of its phases: the document's examples, each boundary of each schema, requests at
random, and chains of requests by the document's links.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from penstock.doors.tlex.openapi import OPERATIONS, SESSION_EXAMPLES
from penstock.exchange.authorization import Role
from penstock.exchange.rights import CATEGORIES
from tests.doors.tlex.site import Site

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"

# Requests at random for each operation, and chains of requests.
EXAMPLES = 100 if LONG else 8

# Right by their form, requests may still be refused with 400: for controllers that are not registered, or in use.
EXCLUDED = "positive_data_acceptance"

# What schemathesis asks with a token taken away or a wrong one; where each request is given one, it cannot.
OF_TOKENS = "ignored_auth,missing_required_header"

# Each boundary of each schema is gone through once; a longer search does so for each role.
PHASES = ("Examples", "Coverage", "Fuzzing", "Stateful")
FURTHER = PHASES if LONG else ("Examples", "Fuzzing", "Stateful")

# Alone, each role gets further: sessions that it has created can be shown, changed and ended by it only.
ALONE = list(Role) if LONG else [Role.TLC_ADMIN, Role.BROKER_ADMIN]


# Seconds that a run may take.
PATIENCE = 1_200 if LONG else 240

pytestmark = pytest.mark.timeout(PATIENCE + 5)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    # Controllers are soon free again, for the next request to ask for them.
    with Site(tmp_path, {"tlex.token_millis": 300}) as running:
        examples = [each.details.identifiers for each in SESSION_EXAMPLES.values()]
        for identifier in dict.fromkeys([each for identifiers in examples for each in identifiers]):
            running.register(identifier)
        yield running


def check(
    hub: Site,
    directory: Path,
    phases: Sequence[str],
    excluded: str,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> None:
    program = Path(sys.executable).parent / "schemathesis"
    command = [str(program), "run", f"{hub.api}/api/v1/openapi.json", "--checks", "all", "--exclude-checks", excluded]
    command += ["--max-examples", str(EXAMPLES), "--continue-on-failure", "--warnings", "off", "--no-color", *options]
    command += ["--phases", ",".join(phases).lower()]
    if not LONG:
        command += ["--seed", "1", "--no-shrink"]
    # Without those of the machine: a proxy is not to be asked for what is on this one.
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    environment = {name: value for name, value in os.environ.items() if name not in proxies}
    done = subprocess.run(
        command,
        cwd=directory,
        env={**environment, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Operations:       {len(OPERATIONS)} selected / {len(OPERATIONS)} total" in done.stdout
    for phase in phases:
        assert f"✅ {phase}" in done.stdout


def test_everybody_in_turn_is_answered_as_documented(hub: Site, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    variables = {
        "IDENTITIES": "\n".join(["", *[hub.token(role) for role in Role]]),
        "SCHEMATHESIS_HOOKS": "tests.doors.tlex.identities",
        "PYTHONPATH": str(root),
    }
    check(hub, tmp_path, PHASES, f"{EXCLUDED},{OF_TOKENS}", variables=variables)


@pytest.mark.parametrize("role", ALONE)
def test_each_role_alone_is_answered_as_documented(hub: Site, tmp_path: Path, role: Role) -> None:
    check(hub, tmp_path, FURTHER, EXCLUDED, ["--header", f"X-Authorization: {hub.token(role)}"])
    # It has got as far as to sessions, if the role may have any.
    present = hub.ask("GET", "/sessions", Role.DOMAIN_ADMIN).json()
    past = hub.ask("GET", "/sessionlogs?from=0", Role.DOMAIN_ADMIN).json()
    assert bool(present or past) == (role in CATEGORIES)
