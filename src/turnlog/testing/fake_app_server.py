"""A scripted stand-in for `codex app-server`, for what the real one cannot be made to do.

    binary = write_fake(folder, Fake(on={"turn/start": [Reply({"turn": {"id": "U"}}), Raw(b"garbage\n"), Exit(3)]}))

It answers the handshake, `thread/start` (thread "T"), `turn/start` (turn "U") and all else by an empty result, unless
the script says otherwise. `received(binary)` gives what it was sent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

VERSION: Final = "0.163.0"

_DEFAULTS: Final[dict[str, Any]] = {
    "thread/start": {"thread": {"id": "T"}},
    "thread/loaded/list": {"data": ["T"]},
    "turn/start": {"turn": {"id": "U", "status": "inProgress"}},
}
CLIENT_ID: Final = "<client id>"
"""Stands in a script for the `clientUserMessageId` of the request that is answered."""

_OURS: Final = "our reply"
"""What a script calls the answers to the fake's own requests."""


class Reply(msgspec.Struct, frozen=True, tag=True):
    """Answer the request that is played for."""

    result: Any


class Refuse(msgspec.Struct, frozen=True, tag=True):
    """Refuse it."""

    message: str
    code: int = -32600


class Send(msgspec.Struct, frozen=True, tag=True):
    """Send a notification, or with an `id` a request."""

    method: str
    params: Any
    id: int | None = None


class Raw(msgspec.Struct, frozen=True, tag=True):
    """Write these bytes."""

    data: bytes


class Exit(msgspec.Struct, frozen=True, tag=True):
    """End with this code, or by a signal when it is negative."""

    code: int


FakeAct = Reply | Refuse | Send | Raw | Exit


class Fake(msgspec.Struct, frozen=True, kw_only=True):
    """A script: what is done on each method ("our reply" for answers to its own requests).

    A `deaf` one heeds neither the end of its input nor SIGTERM. `version` is what it says of itself.
    """

    on: Mapping[str, Sequence[FakeAct]] = {}
    deaf: bool = False
    version: str = VERSION


def write_fake(folder: Path, script: Fake) -> Path:
    """Write the program into `folder`; gives its path, for `CODEX_BIN`."""
    binary = folder / "fake-codex"
    script_file, source = folder / "fake-codex.json", Path(__file__).parents[2]
    script_file.write_bytes(msgspec.json.encode(script))
    lines = [
        f"#!{sys.executable}",
        f"import sys; sys.path.insert(0, {str(source)!r})",
        "from turnlog.testing.fake_app_server import main",
        f"main({str(script_file)!r}, {str(_received_file(binary))!r})",
    ]
    binary.write_text("\n".join(lines) + "\n")
    binary.chmod(0o700)
    return binary


def received(binary: Path) -> list[dict[str, Any]]:
    """The messages that a fake was sent, in all its lives."""
    lines = _received_file(binary).read_bytes().split(b"\n")
    return [json.loads(line) for line in lines if line]


def _received_file(binary: Path) -> Path:
    return binary.with_name("fake-codex.received")


def main(script_file: str, received_file: str) -> None:
    """The program itself."""
    script = msgspec.json.decode(Path(script_file).read_bytes(), type=Fake)
    if sys.argv[1:] == ["--version"]:
        _write_bytes(f"codex-cli {script.version}\n".encode())
        return
    if script.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Path(received_file).open("ab", buffering=0) as log:
        for line in sys.stdin.buffer:
            log.write(line)
            _serve(script, json.loads(line))
    while script.deaf:
        signal.pause()


def _serve(script: Fake, message: dict[str, Any]) -> None:
    method = message.get("method", _OURS)
    acts = script.on.get(method)
    if acts is None:
        acts = [Reply(_default(script, method))] if "method" in message and "id" in message else []
    for act in acts:
        _play(act, message)


def _default(script: Fake, method: str) -> Any:
    if method == "initialize":
        return {"userAgent": f"turnlog/{script.version} (fake)"}
    return _DEFAULTS.get(method, {})


def _play(act: FakeAct, message: dict[str, Any]) -> None:
    match act:
        case Reply(result=result):
            _write({"id": message["id"], "result": result})
        case Refuse(message=text, code=code):
            _write({"id": message["id"], "error": {"code": code, "message": text}})
        case Send(method=method, params=params, id=id_):
            params = _with_client_id(params, message)
            _write({"method": method, "params": params, **({"emittedAtMs": 1} if id_ is None else {"id": id_})})
        case Raw(data=data):
            _write_bytes(data)
        case Exit(code=code):
            sys.stdout.flush()
            if code < 0:
                os.kill(os.getpid(), -code)
            os._exit(code)


def _with_client_id(params: Any, message: dict[str, Any]) -> Any:
    client_id = message.get("params", {}).get("clientUserMessageId", "")
    return json.loads(json.dumps(params).replace(json.dumps(CLIENT_ID), json.dumps(client_id)))


def _write(message: dict[str, Any]) -> None:
    _write_bytes(json.dumps(message).encode() + b"\n")


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
