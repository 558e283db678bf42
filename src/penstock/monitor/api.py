"""The API port's application: probes and, later, metrics, administration and the REST doors."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response

from penstock import __version__


def build_api(is_ready: Callable[[], bool]) -> FastAPI:
    """The application; `is_ready` decides what /health says."""
    app = FastAPI(title="Penstock", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/health", summary="Whether the server takes clients")
    async def health(response: Response) -> dict[str, str]:
        if is_ready():
            return {"status": "ok"}
        response.status_code = 503
        return {"status": "starting"}

    return app
