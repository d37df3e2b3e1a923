"""Processes that write to one store: a live one's turns are its own, a stopped one is refused when it wakes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from turnlog.events.kinds import Submitted
from turnlog.testing.killing import Child

from ..power.recording import open_log
from .test_processes import child

WAIT_S = 60.0

BEATING = """
import threading
from turnlog.errors import TurnlogError
from turnlog.journal import log as log_module, upkeep
from turnlog.testing.faults import FaultEngine

class Beating(FaultEngine):
    def lease(self, owner, seconds):
        super().lease(owner, seconds)
        report("beat")

def beating(lease_s, renew_s):
    log_module.LEASE_S = upkeep.LEASE_S = lease_s
    upkeep.LEASE_RENEW_S = renew_s
    clock = SystemClock()
    return Log(Beating(SqliteEngine(Path(sys.argv[1]) / "store.db", clock)), clock=clock)

def message(text):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}

def wait_for_go():
    (Path(sys.argv[1]) / "go").read_bytes()

def answered(receipt):
    try:
        receipt.result()
    except TurnlogError as error:
        return type(error).__name__
"""

IN_A_NAMESPACE = """
if "inside" not in sys.argv:
    os.execvp("unshare", ["unshare", "--pid", "--fork", sys.executable, *sys.argv, "inside"])
"""


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another process brings about."""
    pause, end = threading.Event(), time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        pause.wait(0.01)


def let_go(folder: Path) -> None:
    """Let the child, which has to wait for it by then or later, go on."""
    (folder / "go").write_bytes(b"")


def beats(running: Child, count: int) -> None:
    """Wait for so many further renewals of the child's lease."""
    seen = running.lines.count("beat")
    running.wait_for(lambda lines: lines.count("beat") >= seen + count)


def need_namespaces() -> None:
    tried = shutil.which("unshare") and subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode
    if tried != 0:
        pytest.skip("only on Linux, for users who may make PID namespaces")


LIVING = """
log = beating(2.0, 0.2)
turn = log.submit("T", "question", turn="t").result()
turn.start().result()
turn.draft("so far").result()
waiting = log.submit("U", "waits", turn="u").result()
report("running")
wait_for_go()
turn.item(message("so far and further")).result()
turn.complete().result()
waiting.start().result()
report("went on")
signal.pause()
"""


@pytest.mark.parametrize("where", ["here", "namespace"])
def test_a_live_writers_turns_are_left_alone(tmp_path: Path, where: str) -> None:
    """C07, P7: through two leases another process recovers twenty times, and touches nothing of a live one; its process
    ids may be of another namespace. Once it is killed, the next recovery settles what it left."""
    if where == "namespace":
        need_namespaces()
    os.mkfifo(tmp_path / "go")
    script = (IN_A_NAMESPACE if where == "namespace" else "") + BEATING + LIVING
    with child(tmp_path, script) as living, open_log(tmp_path) as log:
        living.wait_for(lambda lines: "running" in lines)
        before = [list(log.events(thread)) for thread in "TU"]
        for _ in range(20):
            beats(living, 1)
            assert log.recover() == []
        assert [list(log.events(thread)) for thread in "TU"] == before
        assert [draft.text for draft in log.drafts("T")] == ["so far"]
        let_go(tmp_path)
        living.wait_for(lambda lines: "went on" in lines)
        assert log.turn_view("T", "t").state == "completed"
        living.kill()
        # The kernel frees its lock a moment after its pipe is closed.
        eventually(lambda: bool(log.recover()) or log.turn_view("U", "u").state == "interrupted")
        assert log.turn_view("U", "u").reason == "process_died"


LOOKING = """
log = opened(sys.argv[1])
for n in range(20):
    assert log.recover() == []
report("looked")
"""


def test_a_recoverer_in_another_namespace_sees_who_lives(tmp_path: Path) -> None:
    """C07, P7: a process with process ids of another namespace finds the turn of a live writer out here alive."""
    need_namespaces()
    with open_log(tmp_path) as log:
        turn = log.submit("T", "question").result()
        turn.start().result()
        with child(tmp_path, IN_A_NAMESPACE + LOOKING) as looking:
            assert looking.reap() == 0
            assert looking.lines == ["looked"]
        turn.complete().result()


STOPPED = """
log = beating(2.0, 0.2)
turn = log.submit("T", "question", turn="t").result()
turn.start().result()
for n in range(50):
    turn.item(message(f"{n}")).result()
turn.draft("seen").result()
late = []

def stop():
    # What waits in the writer's queue when it is stopped, between two commits.
    late.extend([turn.draft("unseen"), turn.item(message("unseen")), turn.step("unseen")])
    report("stopping")
    # To this very thread, which goes no step further then.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

log._writer.call(stop).result()
late += [turn.draft("unseen"), turn.item(message("unseen")), turn.drop_attempt(), turn.complete()]
report([answered(receipt) for receipt in late])
log.submit("U", "goes on", turn="u").result().start().result()
report("goes on")
log.close()
"""


def test_a_stopped_writer_is_taken_over_and_refused(tmp_path: Path) -> None:
    """C07, C08, P7: stopped for longer than its lease, a writer is taken over; when it wakes, everything it wanted to
    write, drafts too, is refused as `Fenced`, and the log has nothing of it after the claim."""
    with child(tmp_path, BEATING + STOPPED) as stopped, open_log(tmp_path) as log:
        stopped.wait_for(lambda lines: "stopping" in lines)
        assert log.recover() == []
        eventually(lambda: log.turn_view("T", "t").state == "interrupted")
        assert log.turn_view("T", "t").reason == "process_died"
        turn = log.submit("T", "next", turn="next").result()
        turn.start().result()
        for n in range(50):
            turn.step(f"{n}").result()
        turn.complete().result()
        before = list(log.events("T"))
        os.kill(stopped.pid, signal.SIGCONT)
        refused = next(line for line in stopped.wait_for(lambda lines: "goes on" in lines) if isinstance(line, list))
        assert refused == ["Fenced"] * 7
        assert stopped.reap() == 0
        assert list(log.events("T")) == before
        assert log.drafts("T") == []
        assert [event.turn for event in before if event.kind in ("completed", "interrupted")] == ["t", "next"]
        assert not any(b"unseen" in event.data for event in before)
        assert [message.text for message in log.transcript("T").messages][50:53] == ["49", "seen", "next"]


RACING = """
log = beating(0.001, 0.0)
for n in range(100_000):
    if (Path(sys.argv[1]) / "stop").exists():
        break
    upkeep.LEASE_S = 0.0005 * (1 + n % 40)
    turn = log.submit(f"T{n}", "question", turn=f"t{n}").result()
    steps = [turn.start, lambda: turn.item(message("answer")), turn.complete]
    report([n, [answered(step()) for step in steps]])
report("done")
log.close()
"""

RACES = 60


def test_one_end_when_owner_and_recoverer_race(tmp_path: Path) -> None:
    """C10, P5, P8: an owner whose lease may be out completes while another process recovers: the first end stands, and
    the owner knows which one it was."""
    with child(tmp_path, BEATING + RACING) as racing, open_log(tmp_path) as log:
        told: dict[int, list[str | None]] = {}
        while len(told) < RACES or len({answers[-1] for answers in told.values()}) < 2:
            log.recover()
            told = {line[0]: line[1] for line in racing.lines if isinstance(line, list)}
        (tmp_path / "stop").touch()
        assert racing.reap() == 0
        for n, answers in told.items():
            (end,) = [event.kind for event in log.events(f"T{n}") if event.kind in ("completed", "interrupted")]
            assert (end == "completed") == (answers[-1] is None), answers
            assert set(answers) <= {None, "Fenced"}


SUBMITTING = """
log = opened(sys.argv[2])
report("open")
wait_for_go()
for n in range(20):
    turn = log.submit("T" if n % 2 else f"T{n}", f"pay {n}", key=f"k{n}", when_busy="queue").result()
    report([n, turn.id, turn.duplicate])
    if not turn.duplicate:
        turn.ready().result()
        turn.start().result()
        turn.complete().result()
log.close()
"""


def test_the_same_keys_from_three_processes(tmp_path: Path) -> None:
    """C03, P6: three processes submit the same twenty keys at one instant: one turn and one start a key, the same id
    for all, and two of three are told that it is a duplicate."""
    with ExitStack() as stack:
        senders = []
        for n in range(3):
            (tmp_path / f"{n}").mkdir()
            os.mkfifo(tmp_path / f"{n}" / "go")
            senders.append(stack.enter_context(child(tmp_path / f"{n}", BEATING + SUBMITTING, str(tmp_path))))
        for sender in senders:
            sender.wait_for(lambda lines: len(lines) == 1)
        for n in range(3):
            let_go(tmp_path / f"{n}")
        assert [sender.reap() for sender in senders] == [0, 0, 0]
        told = [line for sender in senders for line in sender.lines[1:]]
    with open_log(tmp_path) as log:
        assert log.recovered == []
        for n in range(20):
            ids, duplicates = {line[1] for line in told if line[0] == n}, [line[2] for line in told if line[0] == n]
            assert (len(ids), sorted(duplicates)) == (1, [False, True, True])
            thread, (turn,) = "T" if n % 2 else f"T{n}", ids
            kinds = [event.kind for event in log.events(thread, turn=turn)]
            assert kinds == ["submitted", "worker_started", "completed"]


LEAVING_A_QUEUE = """
log = opened(sys.argv[1])
turn = log.submit("T", "A", turn="a").result()
turn.start().result()
log.submit("T", "B", turn="b", when_busy="queue").result()
report("accepted")
signal.pause()
"""


def test_a_queue_of_a_dead_process_is_settled_by_a_living_one(tmp_path: Path) -> None:
    """C02, P8: a message that waited in another process, which was killed, is listed and there as not started, behind
    the turn it waited for; the process that is still there settled both, and takes the next message at once."""
    with child(tmp_path, LEAVING_A_QUEUE) as dying, open_log(tmp_path) as log:
        dying.wait_for(lambda lines: lines == ["accepted"])
        later = log.submit("T", "C", turn="c", when_busy="queue").result()
        dying.kill()
        later.ready().result(WAIT_S)
        later.start().result()
        later.complete().result()
        assert [row.thread for row in log.threads().rows] == ["T"]
        said = [event.body.content for event in log.events("T") if isinstance(event.body, Submitted)]
        assert said == ["A", "B", "C"]
        ends = [(event.turn, event.kind) for event in log.events("T") if event.kind in ("interrupted", "completed")]
        assert ends == [("a", "interrupted"), ("b", "interrupted"), ("c", "completed")]
        assert [row.reason for row in reversed(log.turns("T").rows)] == ["process_died", "not_started", None]


OTHER_CLOCKS = """
class Wrong(SystemClock):
    def now_us(self):
        real = super().now_us()
        hour = 3_600_000_000
        still = 1_767_225_600_000_000
        return {"year ahead": real + 8_766 * hour, "hours behind": real - 7 * hour, "still": still}[kind]

kind = sys.argv[2]
clock = Wrong()
log = Log(SqliteEngine(Path(sys.argv[3]) / "store.db", clock), clock=clock)
report("open")
(Path(sys.argv[1]) / "go").read_bytes()
for n in range(20):
    turn = log.submit("T", f"{kind} {n}", turn=f"{kind} {n}", when_busy="queue").result()
    turn.ready().result()
    turn.start().result()
    turn.step("s", status="succeeded").result()
    turn.complete().result()
log.submit("left", kind, turn=f"left {kind}", when_busy="queue").result()
report("done")
signal.pause()
"""


def test_processes_whose_clocks_differ(tmp_path: Path) -> None:
    """C09, C25, P9: beside each other, a clock a year ahead, one hours behind and one that stands still change nothing:
    order is seq, what is completed stays so, and who is alive is told by none of them."""
    kinds = ("year ahead", "hours behind", "still")
    with ExitStack() as stack:
        writers = []
        for kind in kinds:
            (folder := tmp_path / kind).mkdir()
            os.mkfifo(folder / "go")
            writers.append(stack.enter_context(child(folder, OTHER_CLOCKS, kind, str(tmp_path))))
        for writer in writers:
            writer.wait_for(lambda lines: len(lines) == 1)
        for kind in kinds:
            let_go(tmp_path / kind)
        log = stack.enter_context(open_log(tmp_path))
        for writer in writers:
            writer.wait_for(lambda lines: lines[-1] == "done")
            assert log.recover() == []
        events = list(log.events("T"))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        said = [event.turn for event in events if event.kind == "submitted"]
        assert [name for kind in kinds for name in said if kind in str(name)] == [
            f"{k} {n}" for k in kinds for n in range(20)
        ]
        assert [message.turn for message in log.transcript("T", limit=100).messages] == said
        assert {row.state for row in log.turns("T", limit=100).rows} == {"completed"}
        for writer in writers:
            writer.kill()
        assert sorted(found.turn for found in log.recover()) == sorted(f"left {kind}" for kind in kinds)
        assert {row.state for row in log.turns("T", limit=100).rows} == {"completed"}
