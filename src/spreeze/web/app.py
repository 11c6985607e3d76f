"""The addresses that the server answers:

    GET  /, /static/NAME              the page; what is in the package and nothing else
    GET  /api/runs                    the list
    GET  /api/returns?run=ID:CURSOR   evaluations of several runs, behind their cursors
    GET  /api/runs/ID                 one run; ?metrics=, evaluations=, events= take the cursors of the last answer
    GET  /api/runs/ID/documents       config.json, machine.json, summary.json
    GET  /api/runs/ID/frame           the live picture; ?after=STAMP waits for another one
    GET  /api/runs/ID/videos/ID       a video, in ranges
    GET  /api/token                   204: the token is right
    POST /api/runs/ID/ask             {"what": "checkpoint"}: requests.py says what a run may be asked for

Reading ends at a deadline: a long run's first answer comes at once with `complete` false, the next one goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from spreeze import __version__
from spreeze.errors import ConfigError
from spreeze.web.folder import find_places, shown
from spreeze.web.guard import Guard, key_for
from spreeze.web.run import RunView

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
READ_FOR_S = 0.25
SCAN_EVERY_S = 0.8
MOST_RUNS_ASKED = 200
FRAME_WITHIN_S, LOOK_FOR_FRAME_EVERY_S = 2.0, 0.015
CHUNK_BYTES = 256 << 10
MOST_ASKED_BYTES = 1000


class Dashboard:
    """Over the runs in `root`; `token` as in guard.py."""

    def __init__(self, root: Path, token: str) -> None:
        self._root, self._token = root, token
        self._lock = threading.Lock()
        self._runs: dict[str, RunView] = {}
        self._scan_due = 0.0
        self._page = {path.name: path.read_bytes() for path in PAGE.iterdir() if path.suffix in TYPES}

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index),
            Route("/static/{name}", self.static),
            Route("/api/runs", self.list),
            Route("/api/returns", self.returns),
            Route("/api/token", self.token),
            Route("/api/runs/{run}", self.detail),
            Route("/api/runs/{run}/documents", self.documents),
            Route("/api/runs/{run}/frame", self.frame),
            Route("/api/runs/{run}/videos/{video}", self.video),
            Route("/api/runs/{run}/ask", self.ask, methods=["POST"]),
        ]

    # the page

    def index(self, request: Request) -> Response:
        status = 401 if request.state.stranger else 200
        return Response(self._page["index.html"], status, media_type="text/html")

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._page:
            return PlainTextResponse("no such file", 404)
        return Response(self._page[name], media_type=TYPES[os.path.splitext(name)[1]])

    # reading

    def list(self, request: Request) -> Response:
        runs = [view.brief() for view in self._find_runs().values()]
        runs.sort(key=lambda run: (-run["started_s"], run["name"]))
        return answer({"folder": shown(str(self._root.absolute())), "version": __version__, "runs": runs})

    def returns(self, request: Request) -> Response:
        deadline, runs = time.monotonic() + READ_FOR_S, self._find_runs()
        asked = [one.partition(":") for one in request.query_params.getlist("run")[:MOST_RUNS_ASKED]]
        return answer([runs[run].returns(cursor, deadline) for run, _, cursor in asked if run in runs])

    def token(self, request: Request) -> Response:
        given = request.headers.get("authorization")  # the guard has looked whether it is right
        return Response(status_code=204) if given else PlainTextResponse("no token was given", 401)

    def detail(self, request: Request) -> Response:
        view = self._find(request)
        if view is None:
            return _no_such_run()
        found = view.detail(dict(request.query_params), time.monotonic() + READ_FOR_S)
        for video in found["videos"]:
            path = f"/api/runs/{view.place.id}/videos/{video['id']}"
            video["url"] = f"{path}?key={key_for(self._token, path)}"
        return answer(found)

    def documents(self, request: Request) -> Response:
        view = self._find(request)
        return answer(view.documents()) if view else _no_such_run()

    async def frame(self, request: Request) -> Response:
        view = await asyncio.to_thread(self._find, request)
        if view is None:
            return _no_such_run()
        after, deadline = request.query_params.get("after", "0"), time.monotonic() + FRAME_WITHIN_S
        while (stamp := view.frame_stamp()) in (0, int(after) if after.isdigit() and len(after) < 20 else 0):
            if time.monotonic() > deadline or await request.is_disconnected():
                return Response(status_code=204)
            await asyncio.sleep(LOOK_FOR_FRAME_EVERY_S)
        data = await asyncio.to_thread(view.frame)
        if data is None:
            return Response(status_code=204)
        return Response(data, media_type="image/jpeg", headers={"x-frame-stamp": str(stamp)})

    def video(self, request: Request) -> Response:
        view = self._find(request)
        found = view.open_video(request.path_params["video"]) if view else None
        if found is None:
            return PlainTextResponse("no such video", 404)
        return file_in_ranges(*found, request.headers.get("range", ""))

    # acting: the guard has seen the token

    async def ask(self, request: Request) -> Response:
        view = await asyncio.to_thread(self._find, request)
        if view is None:
            return _no_such_run()
        try:
            what = json.loads(await _short_body(request))["what"]
            if not isinstance(what, str):
                raise ValueError(what)
        except (ValueError, RecursionError, TypeError, KeyError):
            return PlainTextResponse('expected a JSON object such as {"what": "checkpoint"}', 400)
        try:
            await asyncio.to_thread(view.ask, what)
        except ConfigError as error:
            return PlainTextResponse(str(error), 400)
        except OSError as error:
            return PlainTextResponse(f"the run's folder takes no request: {error.strerror}", 409)
        return answer({"asked": what})

    def _find(self, request: Request) -> RunView | None:
        return self._find_runs().get(request.path_params["run"])

    def _find_runs(self) -> dict[str, RunView]:
        with self._lock:
            if time.monotonic() >= self._scan_due:
                found = find_places(self._root)
                self._runs = {place.id: self._runs.get(place.id) or RunView(place) for place in found}
                self._scan_due = time.monotonic() + SCAN_EVERY_S
            return self._runs


def make_app(root: Path, token: str, names: tuple[str, ...] = ()) -> Guard:
    return Guard(Starlette(routes=Dashboard(root, token).routes()), token, names)


def answer(document: Any) -> Response:
    """ASCII alone: a name may hold half a character."""
    return Response(json.dumps(document, allow_nan=False, separators=(",", ":")), media_type="application/json")


def file_in_ranges(fd: int, media_type: str, asked: str) -> Response:
    """A browser that seeks in a video asks for 'bytes=1000-'. Takes the descriptor over."""
    size = os.fstat(fd).st_size
    first, end = parse_range(asked, size)
    if first >= end and size:
        os.close(fd)
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    headers = {"accept-ranges": "bytes", "content-length": str(end - first)}
    if asked:
        headers["content-range"] = f"bytes {first}-{end - 1}/{size}"
    return StreamingResponse(_pieces(fd, first, end), 206 if asked else 200, headers, media_type)


def parse_range(asked: str, size: int) -> tuple[int, int]:
    """'bytes=10-19' -> (10, 20). What cannot be read as one range is the whole file."""
    unit, _, span = asked.partition("=")
    first, dash, last = span.partition("-")
    numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 19 else None for part in (first, last)]
    if unit != "bytes" or not dash or (numbers == [None, None]) or (None in numbers and first and last):
        return 0, size
    from_byte, to_byte = numbers
    if from_byte is None:
        return max(0, size - (to_byte or 0)), size
    return from_byte, size if to_byte is None else min(to_byte + 1, size)


def _pieces(fd: int, first: int, end: int) -> Iterator[bytes]:
    with open(fd, "rb") as file:
        file.seek(first)
        while first < end and (data := file.read(min(CHUNK_BYTES, end - first))):
            first += len(data)
            yield data


async def _short_body(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_ASKED_BYTES:
            raise ValueError("too long")
    return body


def _no_such_run() -> Response:
    return PlainTextResponse("no such run", 404)
