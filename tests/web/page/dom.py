"""A model of a browser's document: enough to apply the operations of a live page, and to compare pages.

Shares no code with what makes pages. A document is strict where a browser is lenient: unknown parents, missing
siblings, ids that are used twice and several roots are errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "hr", "br"}


class Node:
    """An element. Children are elements and texts."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Node | str] = []
        self.parent: Node | None = None

    @property
    def id(self) -> str | None:
        return self.attributes.get("id")

    @property
    def shell(self) -> bool:
        return "data-shell" in self.attributes

    def add(self, child: Node | str, place: int | None = None) -> None:
        if isinstance(child, Node):
            child.parent = self
        self.children.insert(len(self.children) if place is None else place, child)

    def remove(self) -> None:
        assert self.parent is not None
        self.parent.children = [child for child in self.parent.children if child is not self]
        self.parent = None

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def shown(self) -> object:
        """What two pages are compared by: all but what the browser itself writes or has fetched."""
        children: list[object] = []
        if "data-live" not in self.attributes and "data-keep" not in self.attributes:
            children = [child.shown() if isinstance(child, Node) else child for child in self.children]
        return self.tag, sorted(self.attributes.items()), children


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("#root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].add(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        children = self._open[-1].children
        if self._open[-1].tag == "pre" and not children and data.startswith("\n"):
            data = data[1:]
        if children and isinstance(children[-1], str):
            children[-1] += data
        elif data:
            children.append(data)

    def finish(self) -> Node:
        self.close()
        assert self._open == [self.root], f"<{self._open[-1].tag}> is not closed"
        return self.root


def parse(html: str) -> Node:
    """The nodes of a text of HTML, in a root of their own."""
    builder = _Builder()
    builder.feed(html)
    return builder.finish()


class Page:
    """A page in a browser."""

    def __init__(self, html: str) -> None:
        self.root = parse(html)
        ids = [node.id for node in self.root.walk() if node.id is not None]
        assert len(set(ids)) == len(ids), "an id twice"

    def find(self, id_: str) -> Node:
        found = [node for node in self.root.walk() if node.id == id_]
        assert len(found) == 1, f"{len(found)} elements {id_}"
        return found[0]

    @property
    def thread(self) -> Node:
        return self.find("thread")

    def apply(self, frames: bytes) -> str | None:
        """Apply frames `frag`; the id of the last one that has one."""
        at = None
        for raw in frames.split(b"\n\n")[:-1]:
            fields = dict(line.split(b": ", 1) for line in raw.split(b"\n"))
            assert fields[b"event"] == b"frag", raw
            assert len(raw) + 2 <= 64 * 1_024, f"a frame of {len(raw)} bytes"
            at = fields[b"id"].decode() if b"id" in fields else at
            for operation in json.loads(fields[b"data"]):
                self._operate(*operation)
        return at

    def _operate(self, verb: str, parent: str, *rest: object) -> None:
        if verb == "put":
            after, html = rest
            assert isinstance(html, str)
            self._put(self.find(parent), after, html)
        else:
            assert verb == "keep"
            (ids,) = rest
            assert isinstance(ids, list)
            self._keep(self.find(parent), ids)

    def _put(self, parent: Node, after: object, html: str) -> None:
        (new,) = parse(html).children
        assert isinstance(new, Node) and new.id is not None
        assert not (new.shell and new.children), "a shell is sent empty"
        assert parent.shell or parent.id == "thread", f"{parent.id} is no shell"
        old = next((node for node in self.root.walk() if node.id == new.id), None)
        if old is None:
            old = new
        else:
            assert old.tag == new.tag and old.shell == new.shell, f"{new.id} became another kind of element"
            old.attributes = new.attributes
            if not new.shell:
                old.children = []
                for child in new.children:
                    old.add(child)
            old.remove()
        place = 0
        if after is not None:
            assert isinstance(after, str)
            place = parent.children.index(self.find(after)) + 1
        parent.add(old, place)

    def _keep(self, parent: Node, ids: list[str]) -> None:
        kept = {child.id: child for child in parent.children if isinstance(child, Node)}
        missing = [id_ for id_ in ids if id_ not in kept]
        assert not missing, f"{parent.id} has no {missing}"
        parent.children = [kept[id_] for id_ in ids]
