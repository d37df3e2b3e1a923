"""What all bodies of events are, and what several of them hold."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What all bodies are."""

    kind: ClassVar[str]


class DroppedText(msgspec.Struct, frozen=True, kw_only=True):
    """Text that an abandoned attempt had shown, with the draft it was."""

    draft: str
    text: str
