"""The API port's application: probes and, later, metrics, administration and the REST doors.

Other rooms add their routes as routers; paths below /api/ingest, /api/1, /api/2 and so on never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI, Response

from penstock import __version__


def build_api(is_ready: Callable[[], bool], routers: Sequence[APIRouter] = ()) -> FastAPI:
    """The application; `is_ready` decides what /health says, `routers` bring routes of other rooms."""
    app = FastAPI(title="Penstock", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/health", summary="Whether the server takes clients")
    async def health(response: Response) -> dict[str, str]:
        if is_ready():
            return {"status": "ok"}
        response.status_code = 503
        return {"status": "starting"}

    for router in routers:
        app.include_router(router)
    return app
