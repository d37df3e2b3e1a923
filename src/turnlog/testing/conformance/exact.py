"""Promise 4: bytes, texts and numbers come back as they were given."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from turnlog.engines.protocol import Done, Duplicate, Engine
from turnlog.testing import writes
from turnlog.testing.conformance.base import Conformance
from turnlog.testing.writes import commit, stored_turn

INT64_MAX = 2**63 - 1

# Each text must be an id of its own, beside all others (C18, C19, C33, C34).
TEXTS = (
    "../x", "..", ".", " ", "/etc/x", "a/b", "a\\b", "a\n", "-rf", "CON", "a.", "a:b", "a-b", "\x01", "%2e%2e",
    "A", "a", "é", "e\u0301", "x" * 300 + "1", "x" * 300 + "2", "a ", "a..", "a\x00b", "a\x00", "\\u0000", "\\\\u0000",
    "\ud83d", "\ude00", "\U0001f600", "\ufffd", "A\u2028B", "A\u2029B", "A\u0085B", "'; DROP TABLE turn; --", "NULL",
)  # fmt: skip

BODIES = {
    "every byte": bytes(range(256)),
    "nothing": b"",
    "one NUL": b"\x00",
    "no UTF-8": b"\xff\xfe\xed\xa0\x80",
    "64 KiB": bytes(range(256)) * 256,
}


class ExactConformance(Conformance):
    """See the module."""

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_a_body_comes_back_byte_for_byte(self, engine: Engine, body: bytes) -> None:
        """P10: events, chunks and folds are bytes to the engine."""
        row = writes.started_turn(engine, "T", "t1")
        write = writes.append(row, base=2, bodies=[body])
        assert write.turn_row is not None
        assert write.thread_row is not None
        write = replace(
            write,
            turn_row=replace(write.turn_row, fold=body),
            thread_row=replace(write.thread_row, fold=body),
            chunks=writes.draft(row, "d", body, after=3).chunks,
        )
        commit(engine, write)
        tail = engine.tail("T", after=2, rev=0, limit=9)
        assert (tail.events[0].body, tail.chunks[0].text) == (body, body)
        assert engine.read("T", after=2, limit=9, bytes_max=1).rows[0].body == body
        assert engine.threads(thread="T", limit=1).rows[0].fold == body
        assert stored_turn(engine, "T", "t1").fold == body

    def test_every_text_is_a_thread_of_its_own(self, engine: Engine) -> None:
        """C18, C19, C33, C34: no two thread ids are ever taken for one, and each comes back as it was."""
        commit(engine, *[writes.note(thread, base=0, body=b"%d" % n) for n, thread in enumerate(TEXTS)])
        assert {row.thread for row in engine.threads(limit=99).rows} == set(TEXTS)
        for n, thread in enumerate(TEXTS):
            assert engine.threads(thread=thread, limit=1).rows[0].thread == thread
            assert engine.tail(thread, after=0, rev=0, limit=9).events[0].body == b"%d" % n

    def test_every_text_is_a_turn_and_a_key_of_its_own(self, engine: Engine) -> None:
        """C18, C19, C34: the same for turn ids, keys, owners, digests, retried turns and drafts."""
        for n, text in enumerate(TEXTS):
            write = writes.submission("T", text, base=n, key=text, digest=text, owner=text, retry_of=f"{text}?")
            assert write.turn_row is not None
            drafted = writes.draft(write.turn_row, text, b"text", after=n, fence=1)
            assert [type(outcome) for outcome in commit(engine, write, drafted)] == [Done, Done]
        chunks = engine.tail("T", after=len(TEXTS), rev=0, limit=9).chunks
        assert [(chunk.turn, chunk.draft) for chunk in chunks] == [(text, text) for text in TEXTS]
        for text in TEXTS:
            by_name = engine.turns(thread="T", turn=text, limit=9).rows
            assert [(row.turn, row.key, row.digest, row.owner, row.retry_of) for row in by_name] == [
                (text, text, text, text, f"{text}?")
            ]
            assert engine.turns(thread="T", key=text, limit=9).rows == by_name
            assert engine.turns(thread="T", owner=text, limit=9).rows == by_name
            assert engine.turns(thread="T", retry_of=f"{text}?", limit=9).rows == by_name
            assert {event.turn for event in engine.read("T", turn=text, limit=9, bytes_max=9).rows} == {text}
        assert set(engine.dead_owners(limit=99)) == set(TEXTS)

    def test_an_unknown_kind_and_version_are_kept(self, engine: Engine) -> None:
        """P4, C15: kind and version are columns, any text and any number."""
        kinds = ["from_the_future", "a\x00b", "\ud83d", "née"]
        events = tuple(replace(writes.record(n, kind=kind), v=INT64_MAX - n) for n, kind in enumerate(kinds, start=1))
        commit(engine, replace(writes.note("T", base=0), events=events))
        assert engine.tail("T", after=0, rev=0, limit=9).events == events
        for event in events:
            assert engine.read("T", kinds=[event.kind], limit=9, bytes_max=9).rows == (event,)

    def test_numbers_of_64_bits_are_exact(self, engine: Engine) -> None:
        """Times are any signed 64-bit number, exactly."""
        times = [-INT64_MAX - 1, -1, 0, 2**53 + 1, INT64_MAX]
        for base, at in enumerate(times):
            write = writes.note("T", base=base, updated_at=at)
            commit(engine, replace(write, events=(replace(write.events[0], at=at),)))
            assert engine.threads(thread="T", limit=1).rows[0].updated_at == at
        assert [event.at for event in engine.tail("T", after=0, rev=0, limit=9).events] == times

    def test_a_large_batch_is_stored_whole(self, engine: Engine) -> None:
        """A batch of 1,000 writes keeps every event in its place, whatever the engine's own statement sizes."""
        batch = [writes.submission(f"T{n % 300}", f"t{n}", base=n // 300, key=f"k{n}") for n in range(1_000)]
        assert {type(outcome) for outcome in engine.commit(batch)} == {Done}
        for n in (0, 299, 300, 511, 999):
            (event,) = engine.read(f"T{n % 300}", turn=f"t{n}", limit=9, bytes_max=9).rows
            assert event.seq == n // 300 + 1
        assert {type(outcome) for outcome in engine.commit(batch)} == {Duplicate}
