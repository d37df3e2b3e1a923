"""Ids in paths: any text there is, written so that no router, proxy or client changes it.

An id of letters, digits, `_`, `-` and `.` that begins with no `.` stands as it is. Any other, and one that equals a
word of a route, is `~` and the base64url of its UTF-8 without padding: a percent-encoded slash does not survive
routing, and `.` and `..` are eaten by clients. What `path_id` gives can also stand in an element's id.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from turnlog.errors import InvalidInput
from turnlog.events.ids import bytes_text, text_bytes

ROUTE_WORDS: Final = frozenset({"latest"})
"""Words that stand in a route where an id may stand."""

SEGMENT: Final = "^(~[A-Za-z0-9_-]+|[A-Za-z0-9_-][A-Za-z0-9._-]*)$"
"""What every segment that names an id looks like, as a pattern of JSON schemas."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def path_id(text: str) -> str:
    """An id as one segment of a path."""
    if _PLAIN.fullmatch(text) and text not in ROUTE_WORDS:
        return text
    return "~" + base64.urlsafe_b64encode(text_bytes(text)).decode().rstrip("=")


def id_of(segment: str, field: str = "id") -> str:
    """The id that a segment names, which may be in the `~` form without need. Raises `InvalidInput` of `field`."""
    if not segment.startswith("~"):
        if _PLAIN.fullmatch(segment) and segment not in ROUTE_WORDS:
            return segment
        raise InvalidInput(field=field, problem="an id like this is written ~ and the base64url of its UTF-8 in a path")
    try:
        data = base64.b64decode(segment[1:].encode() + b"=" * (-len(segment[1:]) % 4), altchars=b"-_", validate=True)
        text = bytes_text(data)
    except (binascii.Error, ValueError):
        raise InvalidInput(field=field, problem="after ~ stands no base64url of UTF-8") from None
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != segment[1:]:  # other spellings of the same bytes
        raise InvalidInput(field=field, problem="after ~ stands base64url that ends in unused bits")
    return text
