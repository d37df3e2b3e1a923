"""The application: all routes of a site, behind the guard."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from turnlog.errors import TurnlogError
from turnlog.web import metrics
from turnlog.web.api import changes, events
from turnlog.web.api import routes as api
from turnlog.web.guard import Guard, Guarding
from turnlog.web.page import routes as pages
from turnlog.web.page.live import LivePage, Pace
from turnlog.web.problems import http_problem, turnlog_problem
from turnlog.web.site import Site
from turnlog.web.stream.changing import ChangeFeed
from turnlog.web.stream.feed import ThreadFeed
from turnlog.web.stream.sharing import Shared


def create_app(site: Site, *, guard: Guard) -> Starlette:
    """The routes of `site`, behind `guard`. Every error that a route raises becomes a problem document.

    Beside the site its state has what is read once for all streams: `feeds` of threads, `changes` of all of them, and
    the `pages` that are shown live.
    """
    routes: list[Route] = [*api.ROUTES, *events.ROUTES, *changes.ROUTES, *metrics.ROUTES, *pages.ROUTES]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guarding, guard=guard, counts=site.counts)],
        exception_handlers={TurnlogError: turnlog_problem, HTTPException: http_problem},
    )
    app.router.redirect_slashes = False
    app.state.site = site
    app.state.feeds = Shared[ThreadFeed](lambda thread: ThreadFeed(site.log, thread))
    app.state.changes = Shared[ChangeFeed](lambda _: ChangeFeed(site.log))
    pace = Pace()
    app.state.pages = Shared[LivePage](lambda thread: LivePage(site.log, thread, pace))
    return app
