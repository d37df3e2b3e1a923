"""Elements and fragments: the pieces of HTML that pages are put together from and streams carry.

A page is a tree of elements with ids. A *leaf* is sent whole; a *shell* has children that are elements of the same
tree, and is sent empty. `flat` gives a tree in document order, which is how pages and streams both see it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import escape

from turnlog.events.codec import encode_json
from turnlog.limits import DOM_ID_CHARS_MAX, LEAF_BYTES_MAX, PIECE_CHARS
from turnlog.web.paths import path_id

_UNPRINTABLE: Final = re.compile("[\x00\ud800-\udfff]")
_LINE_ENDS: Final = re.compile("\r\n?")


class Element(NamedTuple):
    """One element. `html` is the whole element of a leaf; of a shell (`children` is not None) the empty element."""

    id: str
    html: str
    children: Sequence[Element] | None = None


class Fragment(NamedTuple):
    """An element's own HTML and where it stands: `after` is the id of its elder sibling in `parent`."""

    id: str
    parent: str
    after: str | None
    html: str
    shell: bool


def in_frame(html: str) -> bool:
    """Whether HTML is small enough for a leaf: in a frame, where it is written as JSON."""
    return len(html) <= LEAF_BYTES_MAX and len(encode_json(html)) <= LEAF_BYTES_MAX


def element(tag: str, id_: str, inner: str = "", **attributes: str | bool | None) -> Element:
    """A leaf around `inner`, which is HTML that is `in_frame`. Of the attributes, None and False are left out, `class_`
    is `class`."""
    return Element(id_, f'<{tag} id="{id_}"{_attributes(attributes)}>{inner}</{tag}>')


def shell(tag: str, id_: str, children: Sequence[Element], **attributes: str | bool | None) -> Element:
    """An element that holds other elements."""
    return Element(id_, f'<{tag} id="{id_}" data-shell{_attributes(attributes)}></{tag}>', children)


def _attributes(attributes: Mapping[str, str | bool | None]) -> str:
    parts = []
    for name, value in attributes.items():
        written = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {written}")
        elif value is not None and value is not False:
            parts.append(f' {written}="{escape(value)}"')
    return "".join(parts)


def page_html(elements: Iterable[Element]) -> str:
    """The HTML of whole elements, one after the other, nothing between them."""
    parts: list[str] = []
    _write(elements, parts)
    return "".join(parts)


def _write(elements: Iterable[Element], parts: list[str]) -> None:
    for one in elements:
        if one.children is None:
            parts.append(one.html)
            continue
        end = one.html.rindex("</")
        parts.append(one.html[:end])
        _write(one.children, parts)
        parts.append(one.html[end:])


def flat(elements: Iterable[Element], parent: str) -> Iterator[Fragment]:
    """Fragments in document order: a parent before its children, an elder sibling before a younger one."""
    after: str | None = None
    for one in elements:
        yield Fragment(one.id, parent, after, one.html, one.children is not None)
        if one.children is not None:
            yield from flat(one.children, one.id)
        after = one.id


def clean(text: str) -> str:
    """Text that HTML can carry: ends of lines as LF; NUL and lone surrogates, which it cannot, as U+FFFD."""
    text = _LINE_ENDS.sub("\n", text) if "\r" in text else text
    return _UNPRINTABLE.sub("\ufffd", text)


def dom_id(name: str) -> str:
    """A name as a part of element ids: letters, digits and `._~-` only, and never long."""
    written = path_id(name)
    if len(written) <= DOM_ID_CHARS_MAX:
        return written
    digest = hashlib.sha256(written.encode()).hexdigest()
    return f"~~{digest[: DOM_ID_CHARS_MAX - 2]}"


def plain(tag: str, id_: str, text: str, **attributes: str | bool | None) -> Element:
    """Text as it is, in pieces that each fit a frame many times over."""
    text = clean(text)
    pieces = [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]
    children = [element("span", f"{id_}:{number}", str(escape(piece))) for number, piece in enumerate(pieces)]
    return shell(tag, id_, children, **attributes)
