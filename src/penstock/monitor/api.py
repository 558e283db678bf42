"""The API port's application: probes, figures, and the routes that adapters and doors bring along.

Other rooms add their routes as routers; paths below /api/ingest, /api/1, /api/2 and so on never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from penstock import __version__
from penstock.monitor.exposition import chosen_format, exposition
from penstock.monitor.figures import Family
from penstock.monitor.health import ProbeAnswer, live


def build_api(
    ready: Callable[[], ProbeAnswer],
    figures: Callable[[], Iterable[Family]] | None = None,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """The application; `ready` says what /ready answers, `figures` are those of /metrics, which is not there without
    them; `routers` bring routes of other rooms.
    """
    app = FastAPI(title="Penstock", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/health", summary="Whether the server runs")
    async def answer_health() -> JSONResponse:
        status, body = live()
        return JSONResponse(body, status)

    @app.get("/ready", summary="Whether the server accepts clients, and what is wrong")
    async def answer_ready() -> JSONResponse:
        status, body = ready()
        return JSONResponse(body, status)

    if figures is not None:
        _add_metrics(app, figures)
    for router in routers:
        app.include_router(router)
    return app


def _add_metrics(app: FastAPI, figures: Callable[[], Iterable[Family]]) -> None:
    @app.get("/metrics", summary="All metrics, for Prometheus", response_class=PlainTextResponse)
    async def answer_metrics(request: Request) -> Response:
        format = chosen_format(request.headers.get("accept"))
        # The format says more than the type of a response class could.
        return Response(await exposition(figures(), format), headers={"Content-Type": format, "Vary": "Accept"})
