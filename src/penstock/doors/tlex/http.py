"""Requests and answers of the REST side: bodies, parameters, JSON, and who a request is from.

What is asked and answered is in `rest` and `administration`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.doors.tlex.errors import RestRefusal, translated, unauthorized
from penstock.doors.tlex.openapi import HEADER
from penstock.exchange.authorization import Authorization
from penstock.exchange.refusals import HubRefusal, unknown
from penstock.store.thread import StoreThread

# Bytes of a body: enough for the identifiers of thousands of controllers.
MAX_BODY = 1 << 20

JSON = msgspec.json.Encoder()


async def authorization_of(request: Request, store: StoreThread) -> Authorization:
    """Whose token the request has. Raises RestRefusal."""
    secret = request.headers.get(HEADER)
    found = None if not secret else await store.call(store.store.find, secret)
    if found is None:
        raise unauthorized()
    return found


@contextmanager
def identifiers_in(field: str) -> Iterator[None]:
    """A refusal of the hub that is about identifiers names this field of the request."""
    try:
        yield
    except HubRefusal as refusal:
        raise translated(refusal, field) from None


def answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    # It contains tokens: no cache may keep it.
    return Response(JSON.encode(value), status, {"Cache-Control": "no-store"}, "application/json")


def refused(refusal: RestRefusal) -> Response:
    return answer(refusal.body(), refusal.status)


async def body(request: Request) -> bytes:
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > MAX_BODY:
            raise RestRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY} bytes")
    return bytes(read)


def named(request: Request, name: str) -> str:
    """A part of the path. Nothing that exists has a NUL in its name, and not every database takes one."""
    value = str(request.path_params[name])
    if "\0" in value:
        raise unknown()
    return value
