"""deploy/: the Containerfile, as far as it can be followed without a container engine, and the chart, by helm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import __version__
from penstock.config import load
from tests.support.command import PORTS
from tests.support.forge import Forked
from tests.support.process import PATIENCE, READY

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
HELM = ROOT / ".interop" / "helm" / "helm"
CONTAINERFILE = re.sub(r" *\\\n *", " ", (DEPLOY / "Containerfile").read_text("utf-8"))
USER = "10001"


def words(instruction: str) -> list[str]:
    """The JSON list of the last such instruction."""
    [*_, found] = re.findall(rf"^{instruction} (?:--\S+ )*(?:CMD )?(\[.*\])$", CONTAINERFILE, re.MULTILINE)
    listed: list[str] = json.loads(found)
    return listed


def test_the_server_of_the_image_starts_and_its_check_finds_it_well(tmp_path: Path) -> None:
    configuration = tmp_path / "penstock.toml"
    configuration.touch()
    program, *arguments = words("ENTRYPOINT")
    assert program == "penstock"
    given = {"/etc/penstock/penstock.toml": str(configuration), "/var/lib/penstock": str(tmp_path / "data")}
    server = Forked([given.get(argument, argument) for argument in arguments] + [*PORTS])
    try:
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        python, *check = words("HEALTHCHECK")
        assert python == "python"
        for port, expected in ((ready[4], 0), ("1", 1)):
            at_port = [argument.replace(":8081", f":{port}") for argument in check]
            done = subprocess.run([sys.executable, *at_port], capture_output=True, timeout=PATIENCE, check=False)
            assert done.returncode == expected, done.stderr
    finally:
        server.terminate()
        server.wait(PATIENCE)
        server.close()


def test_the_image_runs_as_a_user_that_owns_the_data_and_nothing_else() -> None:
    lines = CONTAINERFILE.splitlines()
    assert [line for line in lines if line.startswith("USER")] == [f"USER {USER}"]
    assert lines.index(f"USER {USER}") > max(index for index, line in enumerate(lines) if line.startswith("RUN"))
    assert f"--uid {USER}" in CONTAINERFILE
    assert "install -d -m 0700 -o penstock -g penstock /var/lib/penstock" in CONTAINERFILE


def test_the_version_is_taken_from_the_name_of_the_wheel(tmp_path: Path) -> None:
    for tag in ("py3-none-any", "cp313-cp313-linux_x86_64"):
        (tmp_path / f"penstock-{__version__}-{tag}.whl").touch()
    found = re.search(r"version=\$\((.*?)\) &&", CONTAINERFILE)
    assert found is not None
    command = found[1].replace("/wheels/", f"{tmp_path}/")
    assert subprocess.check_output(["sh", "-c", command], text=True).strip() == __version__


def test_the_chart_is_of_this_version_and_its_configuration_is_valid(tmp_path: Path) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == __version__
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    path = tmp_path / "penstock.toml"
    path.write_text(values["config"], "utf-8")
    assert load(path, {}).config.log.format == "json"


def helm(*arguments: str) -> str:
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*arguments: str) -> dict[str, Any]:
    """By kind."""
    text = helm("template", "push", str(CHART), *arguments)
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each is not None}


@pytest.mark.helm_long
def test_helm_finds_nothing_wrong() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.helm_long
def test_the_pod_is_restricted_and_is_probed_where_the_server_answers() -> None:
    found = rendered()
    assert found.keys() == {"ConfigMap", "Service", "StatefulSet"}
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    [server] = pod["containers"]
    assert found["StatefulSet"]["spec"]["replicas"] == 1
    assert pod["securityContext"]["runAsUser"] == int(USER)
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    assert server["image"] == f"penstock:{__version__}"
    assert {server[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")} == {
        "/health",
        "/ready",
    }
    mounted = {each["mountPath"] for each in server["volumeMounts"]}
    assert {"/var/lib/penstock", "/etc/penstock/penstock.toml", "/tmp"} == mounted
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"].items() <= labels.items()


@pytest.mark.helm_long
def test_a_configuration_of_ones_own_and_a_secret_arrive(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[server]\nname = "north"\n\n[log]\nlevel = "debug"\n', "utf-8")
    found = rendered("--set-file", f"config={path}", "--set", "secret=tokens", "--set", "storage.className=fast")
    assert tomllib.loads(found["ConfigMap"]["data"]["penstock.toml"]) == tomllib.loads(path.read_text("utf-8"))
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    assert {"name": "secret", "secret": {"secretName": "tokens", "defaultMode": 0o440}} in pod["volumes"]
    [claim] = found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    plain = rendered()["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    other = found["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert plain != other
