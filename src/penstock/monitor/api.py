"""The API port's application: health, and the routes that adapters and doors bring along.

Other rooms add their routes as routers; paths below /api/ingest, /api/1, /api/2 and so on never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse

from penstock import __version__
from penstock.monitor.health import Answer


def build_api(health: Callable[[], Answer], routers: Sequence[APIRouter] = ()) -> FastAPI:
    """The application; `health` says what /health answers, `routers` bring routes of other rooms."""
    app = FastAPI(title="Penstock", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/health", summary="Whether the server accepts clients")
    async def answer() -> JSONResponse:
        status, body = health()
        return JSONResponse(body, status)

    for router in routers:
        app.include_router(router)
    return app
