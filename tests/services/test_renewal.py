"""When a certificate whose files have changed is due to be read again."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from penstock.certificates import Certificate, CertificateFiles
from penstock.config import Config
from penstock.services import renewal
from penstock.services.renewal import FileWatch, RenewalService
from penstock.services.service import Service, Shown
from penstock.transport.tls import server_context
from tests.support.tls import CERTIFICATES


class Files:
    """A certificate and its key, to be replaced one after the other."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"
        shutil.copy(CERTIFICATES / "certificate.pem", self.certificate)
        shutil.copy(CERTIFICATES / "private_key.pem", self.key)
        self.read = Certificate(CertificateFiles(str(self.certificate), str(self.key)), _context)


def _context(files: CertificateFiles) -> ssl.SSLContext:
    return server_context(files)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_files_that_stay_are_never_due(files: Files) -> None:
    watch = FileWatch()
    assert [watch.look([files.read]) for _ in range(3)] == [[], [], []]


def test_a_change_is_due_once_when_it_has_come_to_rest(files: Files) -> None:
    watch = FileWatch()
    watch.look([files.read])
    files.certificate.write_text("other")
    assert watch.look([files.read]) == []
    files.key.write_text("other as well")
    assert watch.look([files.read]) == []
    assert watch.look([files.read]) == [files.read]
    assert watch.look([files.read]) == []


def test_a_file_that_is_gone_is_a_change_and_so_is_its_return(files: Files) -> None:
    watch = FileWatch()
    watch.look([files.read])
    content = files.key.read_bytes()
    files.key.unlink()
    assert [watch.look([files.read]) for _ in range(3)] == [[], [files.read], []]
    files.key.write_bytes(content)
    assert [watch.look([files.read]) for _ in range(3)] == [[], [files.read], []]


def test_a_link_that_leads_elsewhere_is_a_change(files: Files, tmp_path: Path) -> None:
    # As tools that renew certificates do it: the name is a link to the newest of several files.
    newest = tmp_path / "certificate-2.pem"
    shutil.copy2(files.certificate, newest)
    watch = FileWatch()
    watch.look([files.read])
    files.certificate.unlink()
    files.certificate.symlink_to(newest)
    assert [watch.look([files.read]) for _ in range(2)] == [[], [files.read]]


def test_a_certificate_that_is_shown_no_more_is_forgotten(files: Files) -> None:
    watch = FileWatch()
    watch.look([files.read])
    files.certificate.write_text("other")
    assert watch.look([]) == []
    assert [watch.look([files.read]) for _ in range(2)] == [[], []]


class Listener(Service):
    name = "listener"

    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate

    def certificates(self, config: Config) -> list[Shown]:
        return [Shown("api", self._certificate, None)]


def test_what_is_replaced_as_soon_as_the_server_is_ready_is_read(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "EVERY", 0.01)
    read = asyncio.Event()

    async def renew(found: list[Shown]) -> None:
        if found:
            read.set()

    monkeypatch.setattr(renewal, "renew", renew)

    async def replaced_at_once() -> None:
        service = RenewalService(Config(), lambda: [Listener(files.read)])
        await service.open()
        files.certificate.write_text("other")
        async with asyncio.timeout(60):
            await read.wait()
        await service.drain()

    asyncio.run(replaced_at_once())
