"""docs/api.md says what the API is, and its examples run."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path

from tests.web.calling import check_value
from tests.web.serving import Serving

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "api.md"


def test_the_page_is_the_document() -> None:
    """docs/api.md is what the generator writes of the OpenAPI document now."""
    assert PAGE.read_text("utf-8") == runpy.run_path(str(DOCS / "generate.py"))["api_markdown"]()


def examples() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path: Path) -> None:
    """The commands of docs/api.md, one after the other against a real server, each get what they are said to get."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("Ship it on Friday.\n")
    with Serving(tmp_path, workspace=tmp_path / "notes") as server:
        commands = "\n".join(examples()).replace("http://127.0.0.1:8765", server.url)
        script = commands.replace("\ncurl", "\necho\ncurl")
        ran = subprocess.run(["bash", "-euc", script], capture_output=True, timeout=60, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    documents = [json.loads(line) for line in ran.stdout.split("\n") if line.startswith("{")]
    shown = ["Health", "Submission", "Timeline", "TranscriptPage", "HistoryItems", None, "NewestTurns", "Submission"]
    assert len(documents) == len(shown) + 1
    for name, document in zip([*shown, "ThreadRow"], documents, strict=True):
        if name is None:
            name = "Problem" if document.get("status") == 409 else "Request"
        check_value(name, document)
    assert documents[-1]["thread"] == "plans/2026 – draft"
    assert re.search(r"^event: event$", ran.stdout, re.MULTILINE)
