"""The English words that tell what a question wants, and are not looked for themselves."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP: Final = _words(
    """a about above actually after again all also am an and another any anybody anything are aren't as at be because
    been before being below between both but by can cannot can't come comes could describe describes did do does
    doesn't doing done don't each else ever every everything exactly explain explains find for from further get gets
    give given go goes got had happen happened happens has have having he hello help her here hey hi him his how
    however i i'd if i'm in inside into is isn't it it's its itself just keep keeps kept know let let's like long
    look looking made make makes many may me mean means mention mentioned mentions might more most much must my need
    needs no nor not now of off often on once one only or other our out over please point purpose quick really same
    say says see shall she should show shows so some somebody something still such summarise summarize summary take
    tell than thank thanks that that's the their them then there there's these they thing things this those through
    time times to too under until up upon us use used uses using very want wants was way we well were what what's
    when where where's which while who whom whose why will with within without work works would yes you your"""
)
"""Words that say nothing about the subject."""

PLACE: Final = _words("app code codebase directory folder here program project repo repository workspace")
"""Words for the folder itself."""

SUBJECT: Final = _words("contain contained contains content contents overview structure structured")
"""Words for what is in it."""

COUNTABLE: Final = _words("directories directory file files folder folders line lines byte bytes")
"""What "how many" can count besides matches."""

LISTED: Final = _words("directories file files folders subfolders tree")
"""What a list shows."""

DEFINING: Final = _words(
    "come comes declared define defined defines definition implementation implemented implements located"
)
"""Words that ask for a definition."""

USING: Final = _words("call called calls use used uses using usage")
"""Words that ask for uses."""

GREETINGS: Final = _words("hello help hey hi thanks thank you")
"""What is no question."""

TYPES: Final[dict[str, tuple[str, ...]]] = {
    "python": (".py", ".pyi"),
    "markdown": (".md", ".markdown"),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".tsx"),
    "rust": (".rs",),
    "go": (".go",),
    "java": (".java",),
    "json": (".json", ".jsonl"),
    "yaml": (".yaml", ".yml"),
    "toml": (".toml",),
    "html": (".html", ".htm"),
    "css": (".css",),
    "text": (".txt",),
    "shell": (".sh", ".bash"),
    "sql": (".sql",),
    "csv": (".csv",),
}
"""Types of file a question may name, with the ends of their names."""
