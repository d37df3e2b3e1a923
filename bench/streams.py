"""Streams under load: a real server with running turns, and many clients, some of which are slow or gone.

The delay is that of a text from when the agent was due to write it to the client's hand: it has in it what kept the
agent from writing, the journal's wait for more text and its sync. A text that did not come is later than any other, and
the number of texts is that of the clock, whatever the server did. Server, agents and clients share the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.streams_clients import Seen
from bench.table import Line

TURNS = 200
CLIENTS: dict[str, int] = {"quick": 910, "slow": 50, "half-open": 20, "page": 20}
SHORT_S = 30.0
FULL_S = 300.0
"""Seconds of the full measurement: only it is long enough for the bars of memory and of half-open clients."""

DELAY_BAR_MS = 250
TAKEN_BAR = 0.99
GROWTH_BAR_MB = 100.0
_GROWTH_FROM_S = 60.0
_FILES = 4_096


@dataclass(frozen=True)
class Usage:
    """What a process has used up to a moment."""

    at_s: float
    cpu_s: float
    resident_mb: float
    waited_s: float
    """Seconds for which its event loop was ready, and others had the cores; 0 where the system does not tell."""


def run(folder: Path, *, seconds: float = SHORT_S) -> Iterator[Line]:
    """Start the server, its turns and its clients, and look at all of them for `seconds`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    store = f"sqlite:///{folder}/streams.db"
    server = subprocess.Popen([sys.executable, "-m", "bench.streams_server", store], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        for number in range(TURNS):
            _submit(port, f"load-{number}")
        clients = _clients(port, seconds)
        usages = _look(server.pid, clients, seconds)
        still_open = _open_streams(port)
        seen = json.loads(clients.communicate()[0])
    finally:
        server.kill()
        server.wait()
    yield from report(seen, usages, seconds, still_open)


def _submit(port: int, thread: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"content": "Tell me about foxes."})
    connection.request("POST", f"/api/threads/{thread}/turns", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 202, answer.read()
    connection.close()


def _open_streams(port: int) -> int:
    """How many streams the server has. A client that does not read does not learn that it was cut off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    found = re.search(r"^turnlog_streams (\d+)", connection.getresponse().read().decode(), re.MULTILINE)
    assert found is not None
    connection.close()
    return int(found[1])


def _clients(port: int, seconds: float) -> subprocess.Popen[bytes]:
    numbers = [part for kind, count in CLIENTS.items() for part in (f"--{kind}", str(count))]
    command = [sys.executable, "-m", "bench.streams_clients", "--port", str(port), "--threads", str(TURNS), *numbers]
    return subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE)


def _look(pid: int, clients: subprocess.Popen[bytes], seconds: float) -> list[Usage]:
    usages = [_usage(pid)]
    while clients.poll() is None:
        time.sleep(1.0)
        usages.append(_usage(pid))
        if usages[-1].at_s - usages[0].at_s > seconds:
            break
    return usages


def _usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert resident is not None
    schedule = Path(f"/proc/{pid}/schedstat")
    waited_s = int(schedule.read_text().split()[1]) / 1e9 if schedule.exists() else 0.0
    return Usage(time.monotonic(), cpu_s, int(resident[1]) / 1_024, waited_s)


def report(seen: Mapping[str, Any], usages: list[Usage], seconds: float, still_open: int) -> Iterator[Line]:
    """The lines about what the clients saw (their document) and the server used."""
    full = seconds >= FULL_S
    kinds = {
        kind: Seen(Counter(dict(told["delays_ms"])), told["refused"], told["ended"])
        for kind, told in seen["kinds"].items()
    }
    for kind, about in (
        ("quick", f"{sum(CLIENTS.values()):,} streams over {TURNS} turns"),
        ("page", "  those of pages"),
    ):
        yield _delay(f"{about}, delay of a text p50, p99", kinds[kind].delays_ms, CLIENTS[kind] * seen["due"])
    for kind in ("quick", "slow", "page"):
        yield _taken(f"  texts that {kind} clients got", kinds[kind].delays_ms, CLIENTS[kind] * seen["due"])
    refused = sum(it.refused for it in kinds.values())
    yield Line("  streams refused", f"{refused}", bar="none", held=refused == 0)
    others = sum(it.ended for kind, it in kinds.items() if kind != "half-open")
    gone, known = kinds["half-open"].ended, sum(CLIENTS.values()) - others - still_open
    yield Line(
        "  half-open clients cut off",
        f"{gone} of {CLIENTS['half-open']}",
        f"{known} by the server's count",
        bar="all" if full else "",
        held=gone == known == CLIENTS["half-open"] if full else None,
    )
    yield Line("  other clients cut off", f"{others}", bar="none", held=others == 0)
    yield from _resources(usages, full=full)


def _delay(what: str, delays_ms: Mapping[int, int], due: int) -> Line:
    """How late texts came; one that did not come counts as later than any that did."""
    p50, p99 = percentile(delays_ms, due, 50), percentile(delays_ms, due, 99)
    return Line(
        what,
        ", ".join("never" if ms is None else f"{ms} ms" for ms in (p50, p99)),
        bar=f"< {DELAY_BAR_MS} ms",
        held=p99 is not None and p99 < DELAY_BAR_MS,
    )


def _taken(what: str, delays_ms: Mapping[int, int], due: int) -> Line:
    got = sum(delays_ms.values())
    return Line(
        what,
        f"{got:,} of {due:,}",
        bar=f">= {TAKEN_BAR:.0%}",
        held=0 < due * TAKEN_BAR <= got <= due,
    )


def _resources(usages: list[Usage], *, full: bool) -> Iterator[Line]:
    first, last = usages[0], usages[-1]
    since = next((usage for usage in usages if usage.at_s - first.at_s >= _GROWTH_FROM_S), first)
    growth = last.resident_mb - since.resident_mb
    yield Line(
        "  server's memory, growth after the first minute" if full else "  server's memory, growth from the start",
        f"{last.resident_mb:.0f} MB, {growth:+.0f} MB",
        bar=f"< {GROWTH_BAR_MB:.0f} MB" if full else "",
        held=growth < GROWTH_BAR_MB if full else None,
    )
    took_s = last.at_s - first.at_s
    share, waited = (last.cpu_s - first.cpu_s) / took_s, (last.waited_s - first.waited_s) / took_s
    # Delays of a server that waited much are the machine's: measure again when it is quiet.
    yield Line("  server's CPU", f"{share:.0%} of one core", f"{waited:.0%} of the time its loop waited for one")


def percentile(counts: Mapping[int, int], total: int, percent: float) -> int | None:
    """The value that `percent` of `total` do not exceed, of values with their counts; None when so many have none."""
    left = total * percent / 100
    for value, count in sorted(counts.items()):
        left -= count
        if left <= 0:
            return value
    return None
