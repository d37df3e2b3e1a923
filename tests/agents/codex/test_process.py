"""One Codex process: it is found, shaken hands with, spoken to with deadlines, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from pathlib import Path

import pytest

from turnlog.agents.codex import connection as connection_module
from turnlog.agents.codex import process as process_module
from turnlog.agents.codex.binary import find_binary, installed_version
from turnlog.agents.codex.jsonrpc import Asked, Told, Unreadable
from turnlog.agents.codex.process import CodexProcess
from turnlog.errors import AgentFailed, InvalidInput, StartFailed, TooLarge
from turnlog.testing.fake_app_server import Exit, Fake, Raw, Refuse, Reply, Send, received

from .running import fake_program, processes_of, program, run, until


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- which program ---------------------------------------------------------------------------------------------


def test_the_named_program_comes_first(tmp_path: Path) -> None:
    """`CODEX_BIN` wins over the package, and one that is no program is refused by its name."""
    binary = tmp_path / "codex"
    binary.write_text("#!/bin/sh\necho codex-cli 0.200.1\n")
    with pytest.raises(StartFailed, match=r"CODEX_BIN names no program: .*/codex"):
        find_binary({"CODEX_BIN": str(binary)})
    binary.chmod(stat.S_IRWXU)
    assert find_binary({"CODEX_BIN": str(binary)}) == binary
    assert installed_version(binary, {}) == "0.200.1"


def test_the_package_brings_the_program() -> None:
    """Without `CODEX_BIN` the program of the installed package is run, in a version that is new enough."""
    assert installed_version(find_binary({}), {}) == "0.163.0"


def test_without_a_program_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no Codex at all, the error names both ways to get one."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StartFailed, match=r"turnlog\[codex\].*CODEX_BIN"):
        find_binary({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("says", "problem"),
    [("codex-cli 0.162.9", "too old: 0.163.0 or newer"), ("hello", "no Codex"), ("0.163.0; exit 1", "does not run")],
)
def test_a_program_that_does_not_fit_is_refused(tmp_path: Path, says: str, problem: str) -> None:
    """A Codex that is too old, and what is none, is told apart by the error."""
    binary = tmp_path / "codex"
    binary.write_text(f"#!/bin/sh\necho {says}\n")
    binary.chmod(stat.S_IRWXU)
    with pytest.raises(StartFailed, match=problem):
        installed_version(binary, {})


# --- starting and ending ---------------------------------------------------------------------------------------


def test_the_real_one_starts_and_ends(tmp_path: Path) -> None:
    """The real Codex shakes hands, tells its version, and is gone when it was closed, twice as well as once."""

    async def main() -> None:
        started = program(tmp_path)
        process = await CodexProcess.start(started)
        assert process.version == installed_version(find_binary(started.environment), started.environment)
        assert process.alive
        reply = await process.connection.request("thread/loaded/list", {})
        assert reply.error is None
        assert json.loads(bytes(reply.result))["data"] == []
        await process.close()
        await process.close()
        assert gone(process.pid)

    run(main())


def test_a_closed_one_is_not_alive(tmp_path: Path) -> None:
    """From the moment it is closed a process is not to be used."""

    async def main() -> bool:
        process = await CodexProcess.start(fake_program(tmp_path, Fake()))
        closing = asyncio.create_task(process.close())
        await asyncio.sleep(0)
        alive = process.alive
        await closing
        return alive

    assert not run(main())


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (Fake(on={"initialize": [Refuse("go away")]}), "go away"),
        (Fake(on={"initialize": [Reply({"userAgent": "turnlog/0.1.0 (old)"})]}), "0.1.0 is too old"),
        (Fake(on={"initialize": [Reply({"userAgent": 7})]}), "no Codex"),
        (Fake(on={"initialize": [Exit(3)]}), r"ended before it answered initialize \(it ended with code 3\)"),
        (Fake(on={"initialize": [Exit(-9)]}), "it was ended by SIGKILL"),
    ],
)
def test_a_start_that_fails_says_why(tmp_path: Path, script: Fake, problem: str) -> None:
    """What goes wrong before the first turn is a failed start with its cause, and leaves no process."""

    async def main() -> None:
        with pytest.raises(StartFailed, match=problem) as caught:
            await CodexProcess.start(fake_program(tmp_path, script))
        assert caught.value.reason == "start_failed"

    run(main())


def test_the_last_words_are_told(tmp_path: Path) -> None:
    """A Codex that dies with a message on stderr has it in the error, without colours."""
    script = tmp_path / "codex"
    script.write_text("#!/bin/sh\nprintf '\\033[31mERROR\\033[0m no home' >&2\nexit 1\n")
    script.chmod(stat.S_IRWXU)

    async def main() -> None:
        with pytest.raises(StartFailed, match=r"its last words: ERROR no home"):
            await CodexProcess.start(program(tmp_path / "home", CODEX_BIN=str(script)))

    run(main())


def test_last_words_that_are_cut_in_a_url_tell_no_password(tmp_path: Path) -> None:
    """Of a long stderr only the end is told; where it begins in the middle of a URL, nothing of that is."""
    script = tmp_path / "codex"
    script.write_text("#!/bin/sh\nprintf 'no https://me:%03000d@host.x is there' 0 >&2\nexit 1\n")
    script.chmod(stat.S_IRWXU)

    async def main() -> None:
        with pytest.raises(StartFailed, match=r"its last words: is there'"):
            await CodexProcess.start(program(tmp_path / "home", CODEX_BIN=str(script)))

    run(main())


def test_a_deaf_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that heeds neither the end of its input nor SIGTERM is killed after the time it has to end."""
    monkeypatch.setattr(process_module, "CODEX_STOP_S", 0.05)

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, Fake(deaf=True)))
        pid = process.pid
        await process.close()
        assert gone(pid)
        assert "SIGKILL" in await process.explain("")

    run(main())


def test_closing_is_carried_through_when_cancelled(tmp_path: Path) -> None:
    """Who waits for the end may be cancelled; the process ends all the same."""

    async def main() -> None:
        process = await CodexProcess.start(program(tmp_path))
        closing = asyncio.create_task(process.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        await process.close()
        assert gone(process.pid)

    run(main())


def test_commands_of_a_killed_codex_are_ended(tmp_path: Path) -> None:
    """A process that carries the mark of a killed Codex is killed, in whatever session it is; others are not."""

    async def main() -> None:
        script = tmp_path / "codex"
        child = tmp_path / "child"
        script.write_text(f"#!/bin/sh\nsetsid sleep 1000 >/dev/null 2>&1 &\necho $! > {child}\nkill -9 $$\n")
        script.chmod(stat.S_IRWXU)
        bystander = await asyncio.create_subprocess_exec("sleep", "1000")
        try:
            with pytest.raises(StartFailed, match="SIGKILL"):
                await CodexProcess.start(program(tmp_path / "home", CODEX_BIN=str(script)))
            await until(lambda: gone(int(child.read_text())))
            assert bystander.returncode is None
        finally:
            bystander.kill()
            await bystander.wait()
            for pid in processes_of(tmp_path / "home"):
                os.kill(pid, signal.SIGKILL)

    run(main())


def test_our_own_settings_stay_with_us(tmp_path: Path) -> None:
    """Codex, and so its commands, gets no setting of turnlog: a server's token is one of them."""

    async def main() -> None:
        script = tmp_path / "codex"
        script.write_text(f"#!/bin/sh\nenv >> {tmp_path}/seen\n")
        script.chmod(stat.S_IRWXU)
        with pytest.raises(StartFailed):
            installed_version(script, {"CODEX_HOME": "home", "TURNLOG_TOKEN": "secret"})
        with pytest.raises(StartFailed):
            await CodexProcess.start(program(tmp_path / "home", CODEX_BIN=str(script), TURNLOG_TOKEN="secret"))
        seen = (tmp_path / "seen").read_text()
        assert "CODEX_HOME" in seen and "secret" not in seen

    run(main())


# --- speaking --------------------------------------------------------------------------------------------------


def test_replies_find_their_requests(tmp_path: Path) -> None:
    """Two requests at once get their own replies, while a request of the other side with the same id waits in order."""
    script = Fake(
        on={
            "first": [Send("ask", {"n": 1}, id=2), Send("tell", {"n": 2})],
            "second": [Raw(b'{"id":3,"result":"second"}\n{"id":2,"result":"first"}\n')],
        }
    )

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, script))
        first, second = await asyncio.gather(
            process.connection.request("first", {}), process.connection.request("second", {})
        )
        assert (bytes(first.result), bytes(second.result)) == (b'"first"', b'"second"')
        asked, told = await process.connection.next(), await process.connection.next()
        assert isinstance(asked, Asked) and (asked.id, asked.method) == (2, "ask")
        assert isinstance(told, Told) and bytes(told.params) == b'{"n": 2}'
        await process.connection.answer(asked.id, {"ok": True})
        await process.connection.refuse(asked)
        await process.close()

    run(main())
    *_, answer, refusal = received(tmp_path / "fake-codex")
    assert answer == {"id": 2, "result": {"ok": True}}
    assert (refusal["id"], refusal["error"]["code"]) == (2, -32601)


def test_every_request_has_a_deadline(tmp_path: Path) -> None:
    """A request that is never answered fails by its name, and the next one is answered as ever."""

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, Fake(on={"mute": []})))
        with pytest.raises(AgentFailed, match=r"did not answer mute within 0\.05 s") as caught:
            await process.connection.request("mute", {}, seconds=0.05)
        assert caught.value.reason == "timed_out"
        assert (await process.connection.request("other", {})).error is None
        await process.close()

    run(main())


def test_a_line_codex_cannot_read_is_never_sent(tmp_path: Path) -> None:
    """Text without UTF-8 is refused before it reaches the real server, which would never answer or end."""

    async def main() -> None:
        process = await CodexProcess.start(program(tmp_path))
        with pytest.raises(InvalidInput):
            await process.connection.request("thread/start", {"cwd": "\ud800"})
        assert (await process.connection.request("thread/loaded/list", {})).error is None
        await process.close()

    run(main())


@pytest.mark.parametrize("code", [0, 1, -signal.SIGKILL])
def test_an_end_is_the_end_of_every_request(tmp_path: Path, code: int) -> None:
    """When the pipe ends, whatever the exit code, open requests fail, later ones too, and nothing more comes."""
    script = Fake(on={"last": [Send("tell", {}), Raw(b'{"half":'), Exit(code)]})

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, script))
        for method in ("last", "later"):
            with pytest.raises(AgentFailed, match=f"ended before it answered {method}") as caught:
                await process.connection.request(method, {})
            assert caught.value.reason == "transport_closed"
        assert isinstance(await process.connection.next(), Told)
        assert await process.connection.next() is None
        await process.connection.answer(1, {})
        await process.close()

    run(main())


def test_garbage_does_not_hide_what_follows(tmp_path: Path) -> None:
    """A line of no message is given as such, in its place."""
    script = Fake(on={"turn": [Raw(b"\x1b[31mpanic\n\n"), Send("tell", {}), Reply({})]})

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, script))
        await process.connection.request("turn", {})
        assert await process.connection.next() == Unreadable(b"\x1b[31mpanic")
        assert isinstance(await process.connection.next(), Told)
        await process.close()

    run(main())


def test_a_line_without_end_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line over the limit is not gathered for ever: the connection ends by the limit's name."""
    monkeypatch.setattr("turnlog.agents.codex.jsonrpc.CODEX_LINE_BYTES_MAX", 1_000)

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, Fake(on={"turn": [Reply({}), Raw(b"x" * 2_000)]})))
        await process.connection.request("turn", {})
        with pytest.raises(TooLarge, match="CODEX_LINE_BYTES_MAX"):
            await process.connection.next()
        await process.close()

    run(main())


def test_a_slow_reader_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the inbox full Codex has to wait; then everything comes, in order, and requests are answered meanwhile."""
    monkeypatch.setattr(connection_module, "CODEX_INBOX_BYTES", 10_000)
    many = [Send("tell", {"n": n, "fill": "x" * 1_000}) for n in range(500)]

    async def main() -> None:
        process = await CodexProcess.start(fake_program(tmp_path, Fake(on={"turn": [Reply({}), *many]})))
        await process.connection.request("turn", {})
        assert (await process.connection.request("other", {})).error is None
        seen = [await process.connection.next() for _ in many]
        assert [json.loads(bytes(told.params))["n"] for told in seen if isinstance(told, Told)] == list(range(500))
        await process.close()

    run(main())
