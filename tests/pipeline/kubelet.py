"""Runs the pods of a stand-in for Kubernetes as processes that see files as in their container, without an engine.

What examples/kubernetes/Containerfile puts into /opt is put there by mounts that only such a process sees: the
environment of the tests is /opt/penstock. Secrets, settings and empty directories are where the pod wants them. The
network is that of this machine. Read next: `tests.support.kubernetes`.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

from tests.support.kubernetes import Kubernetes, Made

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kubernetes"
ADDRESS = "127.0.0.1"

# Of the image; a variable of the pod goes over it.
IMAGE = {
    "SPARK_HOME": "/opt/spark-home",
    "PYSPARK_PYTHON": "/opt/penstock/bin/python",
    "PYSPARK_DRIVER_PYTHON": "/opt/penstock/bin/python",
    "PATH": "/opt/penstock/bin:/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}


class Kubelet:
    """`api` is set when there is one; `run` is for its `on_pod`."""

    api: Kubernetes

    def __init__(self, place: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
        self._place = place
        self._secrets = secrets
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, pod: Made) -> None:
        name = pod["metadata"]["name"]
        place = self._place / name
        place.mkdir(parents=True)
        (container,) = pod["spec"]["containers"]
        variables = {one["name"]: self._value(one, name) for one in container.get("env", [])}
        with (place / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                ["unshare", "--map-root-user", "--mount", "bash", "-c", self._script(pod, container, place)],
                env=IMAGE | variables,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.api.phase(pod, "Running")

    def log(self, name: str) -> str:
        return (self._place / name / "log").read_text(errors="replace")

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _value(self, variable: Made, pod: str) -> str:
        if "value" in variable or "valueFrom" not in variable:
            return str(variable.get("value", ""))
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return self._secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        return {"status.podIP": ADDRESS, "metadata.name": pod}[source["fieldRef"]["fieldPath"]]

    def _script(self, pod: Made, container: Made, place: Path) -> str:
        """Mounts, then the entry point of the image with the pod's arguments."""
        home = Path(sys.prefix)
        spark = Path(pyspark.__file__).parent.relative_to(home)
        hosts = place / "hosts"
        names = [f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc" for one in self.api.of("services")]
        hosts.write_text(f"{ADDRESS} localhost {os.uname().nodename} {' '.join(names)}\n")
        lines = ["set -e"]
        for number, system in enumerate(("etc", "var")):
            layer = place / f"layer-{number}"
            (layer / "upper").mkdir(parents=True)
            (layer / "work").mkdir()
            options = f"lowerdir=/{system},upperdir={layer}/upper,workdir={layer}/work"
            lines.append(f"mount -t overlay overlay -o {shlex.quote(options)} /{system}")
        lines += [
            f"cat {shlex.quote(str(hosts))} > /etc/hosts",
            "mount -t tmpfs none /opt",
            "mkdir -p /opt/penstock/bin /opt/penstock/lib /var/lib/penstock",
            *(f"mount --bind {shlex.quote(str(home / part))} /opt/penstock/{part}" for part in ("bin", "lib")),
            f"cp {shlex.quote(str(home / 'pyvenv.cfg'))} /opt/penstock/",
            f"cp {EXAMPLE}/entrypoint.sh {EXAMPLE}/pipeline.py /opt/penstock/",
            f"ln -s /opt/penstock/{spark} /opt/spark-home",
        ]
        volumes = {one["name"]: one for one in pod["spec"].get("volumes", [])}
        for number, mount in enumerate(container.get("volumeMounts", [])):
            folder = place / f"volume-{number}"
            folder.mkdir()
            for file, content in self._files(volumes[mount["name"]]).items():
                (folder / file).write_text(content)
            target = shlex.quote(mount["mountPath"])
            lines.append(f"mkdir -p {target} && mount --bind {shlex.quote(str(folder))} {target}")
        arguments = " ".join(map(shlex.quote, container["args"]))
        lines.append(f"cd /var/lib/penstock && exec /opt/penstock/entrypoint.sh {arguments}")
        return "\n".join(lines)

    def _files(self, volume: Made) -> dict[str, str]:
        if "secret" in volume:
            return dict(self._secrets[volume["secret"]["secretName"]])
        if "configMap" in volume:
            data: dict[str, Any] = self.api.made["configmaps", volume["configMap"]["name"]]["data"]
            return {item["path"]: str(data[item["key"]]) for item in volume["configMap"].get("items", [])}
        assert "emptyDir" in volume, volume
        return {}
