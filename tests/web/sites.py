"""Applications behind the guard, in this process: for tests of what is around the routes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import turnlog
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.web.app import create_app
from turnlog.web.guard import Guard, loopback_hosts
from turnlog.web.site import Site
from turnlog.web.work import Work

HOST = "127.0.0.1:8765"
GUARD = Guard(hosts=loopback_hosts(8765))

Handler = Callable[[Request], Awaitable[Response]]


def site_of(log: Log) -> Site:
    return Site(log=log, work=Work(log, {"scripted": ScriptedAgent}, agent="scripted"), clock=SystemClock())


def app_of(route: Handler, *, guard: Guard = GUARD, path: str = "/", methods: tuple[str, ...] = ("GET",)) -> Starlette:
    """An application with this one route, on a store of its own that nobody writes to."""
    with turnlog.open("memory://") as log:
        only = Route(path, route, methods=list(methods))
        app = create_app(site_of(log), guard=guard)
        app.router.routes[:] = [only]
        return app


def asked(app: Any, method: str, path: str, *, host: str = HOST, **request: Any) -> httpx.Response:
    """One request to an application, and its answer."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}") as client:
            return await client.request(method, path, **request)

    return asyncio.run(ask())
