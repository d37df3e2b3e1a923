"""The server: one process that listens, answers, runs turns, and stops in good order.

    with listening("127.0.0.1", 8765) as sock, turnlog.open(url) as log:
        run_server(log, {"demo": DemoAgent}, agent="demo", sock=sock)

A signal sets the site's `stop`: streams say `bye` and end, answers on their way are finished, turns are settled. A
second one waits for nobody.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import resource
import signal
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn

from turnlog.errors import InvalidInput
from turnlog.events.clock import Clock, SystemClock
from turnlog.journal.log import Log
from turnlog.limits import CONNECTIONS_MAX, KEEP_ALIVE_S, STOP_ANSWERS_S
from turnlog.runner.runner import AgentFactory
from turnlog.web.app import create_app
from turnlog.web.connection import Connection
from turnlog.web.counts import Counts
from turnlog.web.guard import Guard, loopback_hosts
from turnlog.web.site import Site
from turnlog.web.work import Work

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_FILES_BESIDE: Final = 256
"""File descriptors that are no connections: the store's, the agents' and their tools'."""


class Server(uvicorn.Server):
    """uvicorn's server with a beginning that is told, and an end that takes streams and turns along."""

    def __init__(self, config: uvicorn.Config, site: Site, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell so."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop by the usual signals. They are not sent again afterwards: the log is still to be closed."""
        loop = asyncio.get_running_loop()
        wanted = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in wanted:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Begin to stop; called again, wait for nobody any more."""
        if self.should_exit:
            self.force_exit = True
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        self.should_exit = True
        self._site.stop.set()


def run_server(
    log: Log,
    agents: Mapping[str, AgentFactory],
    *,
    agent: str,
    sock: socket.socket,
    workspace: Path | None = None,
    guard: Guard | None = None,
    clock: Clock | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve `log` on `sock` until a signal comes; when it returns, what was running is settled. The log stays open.

    `ready` is called once requests are answered. Without a `guard` only this machine's own names are let in.
    """
    counts = Counts()
    work = Work(log, agents, agent=agent, workspace=workspace, counts=counts)
    guard = guard or Guard(hosts=loopback_hosts(port_of(sock)))

    async def serve() -> None:
        site = Site(log=log, work=work, clock=clock or SystemClock(), counts=counts)
        server = Server(_config(create_app(site, guard=guard)), site, ready)
        try:
            await server.serve([sock])
        finally:
            await work.close()

    asyncio.run(serve())


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_connections(),
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_ANSWERS_S,
    )


def _connections() -> int:
    """How many connections this process may have, after asking the system for as many as we take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + _FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, soft - _FILES_BESIDE))


# --- where it listens ------------------------------------------------------------------------------------------


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of `host`; port 0 means any free one.

    Raises `InvalidInput` for a host that is not this machine's, and for a port that is in use or not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(field="host", problem=f"is no address: {error}") from None
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError as error:
        sock.close()
        raise _unusable(error, host, port) from None
    return sock


def _unusable(error: OSError, host: str, port: int) -> InvalidInput:
    if isinstance(error, PermissionError):
        return InvalidInput(field="port", problem=f"{port} is not allowed for this user")
    if error.errno == errno.EADDRINUSE:
        return InvalidInput(field="port", problem=f"{port} is in use already; name another one, or 0 for any")
    return InvalidInput(field="host", problem=f"{host} is not to be listened at: {error.strerror}")


def port_of(sock: socket.socket) -> int:
    """The port a socket listens at."""
    port: int = sock.getsockname()[1]
    return port


def url_of(sock: socket.socket, host: str) -> str:
    """The address to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port_of(sock)}/"


def guard_of(sock: socket.socket, host: str, token: str | None) -> Guard:
    """Who may come to a server that listens at `host`. Raises `InvalidInput` when others can reach it without a token.

    At an address of all interfaces no name can tell whether a request means us; there the token alone does.
    """
    address = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
    if token is None and not address.is_loopback:
        raise InvalidInput(field="token", problem=f"is needed, as others can reach {host}")
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise InvalidInput(field="token", problem="must be visible ASCII characters")
    port = port_of(sock)
    named = {f"[{host}]" if ":" in host else host.lower()}
    own = loopback_hosts(port) | {f"{name}:{port}" for name in named} | (named if port == 80 else set())
    return Guard(hosts=None if address.is_unspecified else own, token=token, cookie=f"turnlog-{port}")
