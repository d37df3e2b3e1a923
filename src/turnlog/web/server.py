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
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn

from turnlog.errors import InvalidInput
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.limits import CONNECTIONS_MAX, FILES_BESIDE, KEEP_ALIVE_S, STOP_ANSWERS_S, STOP_LEAVING_S
from turnlog.runner.runner import AgentFactory
from turnlog.web.app import create_app
from turnlog.web.connection import Connection
from turnlog.web.guard import Guard, loopback_hosts
from turnlog.web.site import Site
from turnlog.web.work import STOPPED, Work

_logger = logging.getLogger("turnlog")

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Server(uvicorn.Server):
    """uvicorn's server with a beginning that is told, and an end that takes streams and turns along."""

    def __init__(self, config: uvicorn.Config, site: Site, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._ready = ready
        self._settling: asyncio.Future[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell so."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing: `run` looks after signals for longer than uvicorn would, and does not send them again."""
        yield

    async def run_until_stopped(self, sock: socket.socket) -> None:
        """Serve until a signal comes; then say goodbye, let answers end, and settle the turns."""
        with self._stopped_by_signals():
            try:
                await self.serve([sock])
            finally:
                await self._settle()

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """What a process was told to ignore, as `nohup` does, stays ignored."""
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
        """Begin to stop; called again, wait for nobody any more: the log's closing settles what is left."""
        if self.should_exit:
            self.force_exit = True
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            if self._settling is not None:
                self._settling.cancel()
        self.should_exit = True
        self._site.stop.set()

    async def _settle(self) -> None:
        if self.force_exit:
            return
        self._settling = asyncio.ensure_future(self._site.work.close())
        await asyncio.wait([self._settling])
        if not self._settling.cancelled():
            self._settling.result()


def run_server(
    log: Log,
    agents: Mapping[str, AgentFactory],
    *,
    agent: str,
    sock: socket.socket,
    guard: Guard | None = None,
    workspace: Path | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve `log` on `sock` until a signal comes. `ready` is called once requests are answered.

    Without a `guard` requests are let in that name this machine's loopback address. When it returns, what was running
    is settled, and the log is to be closed. For the main thread of a process.
    """
    let_in = guard or Guard(hosts=loopback_hosts(port_of(sock)))

    async def serve() -> None:
        work = Work(log, agents, agent=agent, workspace=workspace)
        site = Site(log=log, work=work, clock=SystemClock())
        server = Server(_config(create_app(site, guard=let_in)), site, ready)
        try:
            await server.run_until_stopped(sock)
        finally:
            await _end_tasks()

    # `asyncio.run` would wait for tasks and threads that do not end, for ever if it must.
    loop = asyncio.new_event_loop()
    try:
        _complete(loop, loop.create_task(serve()))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _complete(loop: asyncio.AbstractEventLoop, server: asyncio.Task[None]) -> None:
    """Run the loop until the server has ended.

    What would end the process ends one task of an agent's: signals come as calls of `stop`, and nothing of ours asks
    for it in this way.
    """
    while not server.done():
        try:
            loop.run_until_complete(server)
        except (KeyboardInterrupt, SystemExit):
            _logger.exception("a task tried to end the process")
    server.result()


async def _end_tasks() -> None:
    """Cancel what is left. An agent that does not end even so is left behind, as its turn is settled."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel(STOPPED)
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_LEAVING_S)


def leave_stuck_threads(error: BaseException | None = None) -> None:
    """The last act of a program: end the process without threads that do not end by themselves now.

    Python would wait for every thread. What an agent's thread still does no log takes any more. An `error` that ends
    the program is told first.
    """
    deadline = SystemClock().boot_s() + STOP_LEAVING_S
    threads = [
        thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()
    ]
    for thread in threads:
        thread.join(max(0.0, deadline - SystemClock().boot_s()))
    if any(thread.is_alive() for thread in threads):
        if error is not None:
            _logger.error("the server ended by an error", exc_info=error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0 if error is None else 1)


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
    wanted = CONNECTIONS_MAX + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, soft - FILES_BESIDE))


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

    With a token names do not matter, as who has none is not let in by any name: a proxy may give it one of its own.
    """
    address = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
    port = port_of(sock)
    if token is None:
        if not address.is_loopback:
            raise InvalidInput(field="token", problem=f"is needed, as others can reach {host}")
        return Guard(hosts=loopback_hosts(port, host))
    if not token or not all("!" <= char <= "~" for char in token):
        raise InvalidInput(field="token", problem="must be visible ASCII characters")
    return Guard(hosts=None, token=token, cookie=f"turnlog-{port}")
