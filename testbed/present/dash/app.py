"""The page's addresses, as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from testbed.present.dash.board import Board
from testbed.present.dash.guard import Guard

#: Changes a setting, given by key and value, of a long-running cluster, and returns a message for the user. Raises
#: ValueError when it can't be set.
Change = Callable[[str, Any], Awaitable[str]]

PAGE = files("testbed.present.dash") / "page"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SETTABLE = ("workload.load", "dispatch.policy")
MOST_BYTES = 10_000  # of a request


class Setting(msgspec.Struct, forbid_unknown_fields=True):
    """A change that the page requests."""

    key: str
    value: float | str


class Answer(msgspec.Struct):
    """Whether the setting was changed, and a message for the user."""

    changed: bool
    message: str


def application(
    board: Board, *, hosts: frozenset[str] | None = None, token: str | None = None, change: Change | None = None
) -> Guard:
    """Return the page that shows ``board``; ``hosts`` and ``token`` as for Guard, ``change`` for its controls."""

    async def page(request: Request) -> Response:
        html = (PAGE / "index.html").read_text(encoding="utf-8").replace("{{secret}}", guard.secret)
        return Response(html, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def part(request: Request) -> Response:
        name = request.path_params["name"]
        file = PAGE / name
        if Path(name).suffix not in TYPES or not file.is_file():
            return PlainTextResponse("no such file\n", status_code=404)
        return Response(file.read_bytes(), media_type=TYPES[Path(name).suffix], headers={"Cache-Control": "no-cache"})

    async def plotly(request: Request) -> Response:
        return FileResponse(plotly_script(), media_type="text/javascript")

    async def updates(request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(board), media_type="text/event-stream", headers=headers)

    async def setting(request: Request) -> Response:
        if change is None:
            return PlainTextResponse("this is not a long-running cluster: its settings are fixed\n", status_code=409)
        body = b""
        async with aclosing(request.stream()) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > MOST_BYTES:
                    return PlainTextResponse(f"the request is longer than {MOST_BYTES} bytes\n", status_code=413)
        try:
            wanted = msgspec.json.decode(body, type=Setting)
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        try:
            if wanted.key not in SETTABLE:
                raise ValueError(f"{wanted.key} can't be set here; settings that can: {', '.join(SETTABLE)}")
            answer = Answer(True, await change(wanted.key, wanted.value))
        except ValueError as error:
            answer = Answer(False, str(error))
        return Response(msgspec.json.encode(answer), media_type="application/json")

    guard = Guard(
        Starlette(
            routes=[
                Route("/", page),
                Route("/plotly.js", plotly),
                Route("/updates", updates),
                Route("/set", setting, methods=["POST"]),
                Route("/{name}", part),
            ]
        ),
        hosts,
        token,
    )
    return guard


def plotly_script() -> Path:
    """Return the path of plotly.js, which is part of plotly's Python package."""
    return Path(str(files("plotly"))) / "package_data" / "plotly.min.js"


async def _events(board: Board) -> AsyncIterator[bytes]:
    """Yield the updates of a board as server-sent events."""
    async for update in board.updates():
        yield b"data: " + msgspec.json.encode(update) + b"\n\n"
