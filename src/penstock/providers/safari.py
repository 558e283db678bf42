"""Sites for Safari on macOS: their formats, their push packages, and the web service that Safari asks for them.

They are sent by `apns`. Requests come in as plain values, so that any port can serve them. Read next: General Concepts,
5.7.1; Apple's "Configuring Safari Push Notifications".
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import log
from penstock.providers.apns import ApnsProvider, ApnsSettings
from penstock.providers.errors import ProviderError
from penstock.push.refusals import PushReason, PushRefusal

_log = log.get(__name__)

SITE_PREFIX = "web."
# A package has a few icons; it is kept in memory.
MAX_PACKAGE = 4 << 20
# What Safari has to say about a package is logged, this much of it.
MAX_LOGGED = 10
MAX_LOGGED_LENGTH = 300

_PACKAGE = re.compile(r"/v[12]/pushPackages/([^/]+)")
_REGISTRATION = re.compile(r"/v[12]/devices/([0-9A-Fa-f]+)/registrations/([^/]+)")
_LOG = re.compile(r"/v[12]/log")


class SafariProvider(ApnsProvider):
    """As an application, but Safari shows only what has a title, a text and arguments for its address."""

    def __init__(self, settings: ApnsSettings, package_file: str) -> None:
        """Raise ProviderError if the package or the credentials are wrong."""
        self._package_file = package_file
        self.package = read_package(package_file, settings.application)
        super().__init__(settings)

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        known = super().check_format(structure)
        alert, arguments = known["aps"].get("alert"), known["aps"].get("url-args")
        if not isinstance(alert, dict) or not alert.get("title") or not alert.get("body"):
            raise PushRefusal(PushReason.FORMAT_EMPTY, 'Safari needs "title" and "body" in "alert" of "aps"')
        if not isinstance(arguments, list) or not arguments:
            raise PushRefusal(
                PushReason.FORMAT_EMPTY, 'Safari needs a list with at least one text in "url-args" of "aps"'
            )
        return known

    def reload(self) -> None:
        package = read_package(self._package_file, self.application)
        super().reload()
        self.package = package


@dataclass(frozen=True, slots=True)
class SafariAnswer:
    status: int
    content_type: str = "text/plain"
    body: bytes = b""


class SafariService:
    """Answers what Safari asks below the configured path. Nobody signs in: sessions do that, who register devices."""

    def __init__(self, sites: Mapping[str, SafariProvider]) -> None:
        self._sites = sites

    def answer(self, method: str, path: str, body: bytes) -> SafariAnswer:
        """`path` is what comes after the configured one, such as `/v2/log`."""
        if match := _PACKAGE.fullmatch(path):
            if method != "POST":
                return SafariAnswer(405)
            site = self._sites.get(match[1])
            return SafariAnswer(404) if site is None else SafariAnswer(200, "application/zip", site.package)
        if match := _REGISTRATION.fullmatch(path):
            # The page registers the device itself, with its session; Safari only wants to hear that all is well.
            if method not in ("POST", "DELETE"):
                return SafariAnswer(405)
            return SafariAnswer(200 if match[2] in self._sites else 404)
        if _LOG.fullmatch(path):
            if method != "POST":
                return SafariAnswer(405)
            return SafariAnswer(200 if _log_complaints(body) else 400)
        return SafariAnswer(404)


def read_package(path: str, site: str) -> bytes:
    """The bytes of a package that is for this site. Raises ProviderError."""
    try:
        with Path(path).open("rb") as file:
            contents = file.read(MAX_PACKAGE + 1)
    except OSError as error:
        raise ProviderError(f"cannot read {path}: {error.strerror}") from None
    if len(contents) > MAX_PACKAGE:
        raise ProviderError(f"{path} has more than {MAX_PACKAGE} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(contents)) as package:
            names = set(package.namelist())
            website: Any = json.loads(package.read("website.json")) if "website.json" in names else {}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, RuntimeError, NotImplementedError, RecursionError):
        raise ProviderError(f"{path} is not a zip file with a readable website.json") from None
    missing = [name for name in ("website.json", "manifest.json", "signature") if name not in names]
    if missing:
        raise ProviderError(f"{path} is not a push package: it has no {', '.join(missing)}")
    if not isinstance(website, dict) or website.get("websitePushID") != site:
        raise ProviderError(f"the websitePushID in website.json of {path} is not {site!r}")
    return contents


def _log_complaints(body: bytes) -> bool:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    complaints = found.get("logs") if isinstance(found, dict) else None
    if not isinstance(complaints, list):
        return False
    for complaint in complaints[:MAX_LOGGED]:
        _log.warning("Safari complains about a push package", text=str(complaint)[:MAX_LOGGED_LENGTH])
    return True
