"""The stand-in for Google's push service itself: a browser that gives up a connection fails no test.

What comes by it: tests/e2e/test_notification.py.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from urllib.parse import urlsplit

import pytest

from tests.providers.google_push import LOGIN, VERSION, GooglePush
from tests.support.waiting import wait_until


@pytest.mark.parametrize("said", [b"", bytes([VERSION]), bytes([VERSION, LOGIN]), bytes([VERSION, LOGIN, 200])])
def test_a_connection_may_be_given_up_at_any_time(said: bytes) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with GooglePush() as google:
        (endpoint,) = [each.partition("=")[2] for each in google.switches if "mcs-endpoint" in each]
        port = urlsplit(endpoint).port
        assert port is not None
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as link:
            link.sendall(said)
            # An orderly end, which is not waited for on the other side.
            with contextlib.suppress(ssl.SSLEOFError):
                link.unwrap()
        # An error in its thread would fail this test.
        wait_until(lambda: not any("_converse" in each.name for each in threading.enumerate()), "the end of the thread")
