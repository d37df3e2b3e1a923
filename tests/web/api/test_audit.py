"""The API looks after the store: findings in pages, a plan that is applied only as it was shown, and its undoing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import turnlog
from tests.audit.damages import DAMAGES
from tests.audit.rich import write_store
from tests.runner.running import run
from tests.web.calling import calling
from turnlog.journal.log import Log


def damaged(folder: Path) -> Log:
    path = write_store(folder)
    DAMAGES["a second end, another one"](path)
    return turnlog.open(f"sqlite:///{path}")


def test_findings_come_in_pages(tmp_path: Path) -> None:
    """P4: all findings of the store are given, in order, however small the pages are; or those of one thread."""

    async def main() -> None:
        async with calling(log) as api:
            whole = await api.get("/api/audit")
            assert whole["next"] is None
            kinds = [found["kind"] for found in whole["findings"]]
            assert kinds == ["orphan_call", "late_event", "terminal_collision", "turn_row_differs", "snapshot_differs"]
            paged: list[Any] = []
            after: Any = "0"
            while after is not None:
                page = await api.get("/api/audit", limit="2", after=after)
                assert len(page["findings"]) <= 2
                paged += page["findings"]
                after = page["next"]
            assert paged == whole["findings"]
            assert (await api.get("/api/audit", thread="other"))["findings"] == []
            assert (await api.get("/api/audit", status=404, thread="nowhere"))["thread"] == "nowhere"
            assert (await api.get("/api/audit", status=400, after="x"))["field"] == "after"

    with damaged(tmp_path) as log:
        run(main())


def test_a_plan_is_applied_as_it_was_shown(tmp_path: Path) -> None:
    """P4: a plan is carried out only while it is the plan that was shown; what it did is told and can be undone."""

    async def main() -> None:
        async with calling(log) as api:
            shown = await api.post("/api/repair", {}, status=200)
            assert shown["done"] is None
            assert [step["action"] for step in shown["steps"]] == ["set_aside", "rebuild_turn", "snapshot"]
            other = await api.post("/api/repair", {"thread": "other"}, status=200)
            refused = await api.post("/api/repair", {"apply": other["plan"]}, status=409)
            assert refused["plan"] == shown["plan"]
            assert log.thread("t").head == 39
            applied = await api.post("/api/repair", {"apply": shown["plan"], "by": "me"}, status=200)
            assert [step["outcome"] for step in applied["done"]] == ["done"] * 3
            assert {found["severity"] for found in (await api.get("/api/audit"))["findings"]} == {"info"}
            refused = await api.post("/api/repair", {"apply": shown["plan"]}, status=409)
            assert refused["type"] == "urn:turnlog:problem:plan-changed"
            undone = await api.post("/api/repair/undo", {"thread": "t", "seq": 40}, status=200)
            assert undone == {"thread": "t", "repair": 40, "seq": 41}
            found = (await api.get("/api/audit", thread="t"))["findings"]
            assert [each["kind"] for each in found if each["severity"] != "info"] == ["terminal_collision"]
            assert (await api.post("/api/repair/undo", {"thread": "t", "seq": 7}, status=400))["field"] == "seq"

    with damaged(tmp_path) as log:
        run(main())
