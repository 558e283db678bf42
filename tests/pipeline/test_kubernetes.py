"""Spark on Kubernetes by docs/cluster-spark.md: the image's file, what spark-submit makes of the command, pods at work.

The API of Kubernetes is a stand-in, and pods are processes (`kubelet`).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pyspark
import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

from penstock.history.lake_url import LakeUrl
from penstock.pipeline.lake import Lake
from tests.history.world import rows, whole_lake
from tests.pipeline.kubelet import EXAMPLE, IMAGE, Kubelet
from tests.pipeline.world import held, some
from tests.support.journal_server import TOKEN, JournalServer
from tests.support.kubernetes import Kubernetes
from tests.support.object_store import BUCKET, KEY, SECRET, ObjectStore
from tests.test_install import build, uv

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster-spark.md").read_text()
EVENTS = 5_000
# A driver and an executor start, on a busy machine.
PATIENCE = 600.0


def block(kind: str, name: str) -> str:
    found = re.search(rf"^```{kind} {re.escape(name)}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


def instructions() -> Iterator[tuple[str, str]]:
    """Of the Containerfile: each with its argument, lines that go on joined."""
    text = re.sub(r"^\s*#.*\n", "", (EXAMPLE / "Containerfile").read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line:
            name, _, argument = line.partition(" ")
            yield name, argument


def test_the_containerfile_copies_files_that_there_are_and_sets_what_the_pods_need() -> None:
    known = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}
    found = list(instructions())
    assert found[0][0] == "FROM"
    assert {name for name, _ in found} == known
    copied = [source for name, argument in found if name == "COPY" for source in argument.split()[:-1]]
    # What `make wheels` makes, whose name tests/test_install.py knows.
    wheels = [source for source in copied if source.startswith("dist/")]
    assert [fnmatch("dist/penstock-0.1.0-py3-none-any.whl", source) for source in wheels] == [True]
    for source in copied:
        if source not in wheels:
            assert (ROOT / source).is_file(), source
    environment = dict(
        shlex.split(pair)[0].split("=", 1) for name, argument in found if name == "ENV" for pair in argument.split()
    )
    assert environment == {name: value for name, value in IMAGE.items() if name != "LANG"}
    (entry,) = [argument for name, argument in found if name == "ENTRYPOINT"]
    assert entry.endswith('"/opt/penstock/entrypoint.sh"]')
    # Spark has the pods run as whoever the image names.
    assert [argument for name, argument in found if name == "USER"] == ["10001"]


def test_the_rights_are_those_of_the_account_that_the_command_names() -> None:
    made = {one["kind"]: one for one in yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text())}
    account = made["ServiceAccount"]["metadata"]
    assert f"serviceAccountName={account['name']} " in block("sh", "submit")
    assert f"spark.kubernetes.namespace={account['namespace']} " in block("sh", "submit")
    assert made["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert made["RoleBinding"]["roleRef"]["name"] == made["Role"]["metadata"]["name"]


@pytest.mark.install_long
@pytest.mark.timeout(1_200)
def test_what_the_containerfile_installs_can_be_installed(tmp_path: Path) -> None:
    """All of it from the lock file, and the wheel needs nothing that is not in it."""
    wheel = build(tmp_path, sys.executable)
    assert fnmatch(f"dist/{wheel.name}", "dist/penstock-*-py3-none-any.whl")
    commands = " && ".join(argument for name, argument in instructions() if name == "RUN")
    installed = re.findall(r"--require-hashes .*?--requirement /tmp/(requirements/\w+\.txt)", commands)
    assert installed == ["requirements/build.txt", "requirements/spark.txt"]
    uv("venv", "--quiet", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = ("pip", "install", "--dry-run", "--python", python)
    uv(*install, "--require-hashes", "-r", "requirements/spark.txt")
    told = uv(*install, "--constraint", "requirements/spark.txt", f"penstock[spark] @ {wheel.as_uri()}")
    wanted = set(re.findall(r"^ \+ ([\w.-]+)==", told, re.MULTILINE)) - {"penstock"}
    names = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "spark.txt").read_text(), re.MULTILINE))
    assert wanted
    assert wanted <= names


@pytest.mark.spark
@pytest.mark.spark_long
@pytest.mark.timeout(1_800)
def test_the_pods_that_spark_submit_asks_for_move_the_journal_into_the_object_store(tmp_path: Path) -> None:
    with ObjectStore() as store, JournalServer(tmp_path / "server") as server:
        server.append(some(EVENTS), frame=500)
        configuration = block("toml", "kubernetes.toml").replace("https://push.example.com:8081", server.api)
        configuration = configuration.replace(
            'region = "us-east-1"', f'region = "us-east-1", endpoint = "{store.endpoint}"'
        )
        secrets = {
            "penstock-pipeline": {"pipeline.toml": configuration, "reader-token.txt": f"{TOKEN}\n"},
            "penstock-store": {"key": KEY, "secret": SECRET},
        }
        kubelet = Kubelet(tmp_path / "pods", secrets)
        with Kubernetes() as api:
            kubelet.api = api
            try:
                submit(api, tmp_path)
                (driver,) = api.pods()
                check_driver(driver["spec"])
                assert api.unknown == []
                api.on_pod = kubelet.run
                kubelet.run(driver)
                name = driver["metadata"]["name"]
                assert kubelet.processes[name].wait(PATIENCE) == 0, kubelet.log(name)[-6_000:]
                executors = [pod for pod in kubelet.processes if pod != name]
                assert executors, kubelet.log(name)[-6_000:]
            finally:
                kubelet.close()
            for pod in kubelet.processes:
                assert SECRET not in kubelet.log(pod)
                assert TOKEN not in kubelet.log(pod)
            # The driver has removed what it made, and nothing of it is a secret.
            assert api.unknown == []
        lake = LakeUrl(
            f"s3://{BUCKET}/penstock/lake",
            {"region": "us-east-1", "endpoint": store.endpoint, "access_key_id": KEY, "secret_access_key": SECRET},
        )
        assert whole_lake(Lake(lake)) == rows(held(server.journal_path))


def submit(api: Kubernetes, place: Path) -> None:
    """The command of the page, to the stand-in, once, and with an executor that fits beside its driver."""
    _, *given = shlex.split(block("sh", "submit").replace("\\\n", " "))
    address = given.index("k8s://https://kubernetes.example.com:6443")
    given[address] = f"k8s://{api.url}"
    for name, value in {
        "spark.kubernetes.driver.master": api.url,
        "spark.executor.instances": "1",
        "spark.executor.memory": "600m",
        "spark.ui.enabled": "false",
    }.items():
        given[address + 1 : address + 1] = ["--conf", f"{name}={value}"]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [str(program), *given, "--once"],
        cwd=place,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "HOME": str(place)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6_000:]


def check_driver(spec: dict[str, object]) -> None:
    text = str(spec)
    assert "'serviceAccountName': 'penstock-spark'" in text
    assert "'secretName': 'penstock-pipeline'" in text
    assert "'image': 'registry.example.com/penstock-spark'" in text
    # Secrets are named in the pod, never written into it.
    assert SECRET not in text
    assert TOKEN not in text
