"""Markdown as elements: one leaf for each paragraph, table row or group of lines of code.

So of a growing answer only what changed is sent. What an agent wrote stays text: no raw HTML, no images from elsewhere,
links only to the web and to mail; an allow-list goes over the result once more.

What HTML a text becomes has bounds, which depend on the text alone: what would not fit a frame is shown as it was
written, and so is a whole message that would become many times its size or take long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import escape

from turnlog.limits import (
    CODE_COLOURED_CHARS,
    CODE_LINES_LEAF,
    LEAF_BYTES_MAX,
    LEAF_TEXT_CHARS,
    MESSAGE_BLOCKS_MAX,
    MESSAGE_HTML_CHARS,
    MESSAGE_HTML_TIMES,
    MESSAGE_LINES_MAX,
    MESSAGE_TOKENS_MAX,
    NAMES_BYTES_MAX,
)
from turnlog.web.page.growing import healed, without_unfinished_line
from turnlog.web.page.listings import LANGUAGES, coloured
from turnlog.web.page.markup import Element, clean, element, in_frame, plain, shell

AS_WRITTEN: Final = "Shown as it was written: laid out, this message would be too large for a page."

_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,20}")
_CONTAINERS: Final = frozenset(
    f"{name}_open" for name in ("bullet_list", "ordered_list", "list_item", "blockquote", "table", "tbody")
)
_LISTINGS: Final = frozenset({"fence", "code_block"})

_KEPT_TOPS: Final = 3
"""Blocks at the end that are read again when text is added. What is added can change the last block, and join it with
the one before (`#` begins a heading, `#x` goes on with a paragraph)."""

_DEFINITION: Final = re.compile(r"\]:")
_SCHEMES: Final = re.compile(r"(https?|mailto):", re.IGNORECASE)
_REL: Final = "noopener noreferrer nofollow"


def _make(*core: str) -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 12}).enable(["table", "strikethrough"])
    made.disable(["html_block", "html_inline"])
    made.core.ruler.enableOnly(core)
    made.validateLink = lambda url: bool(_SCHEMES.match(url))  # type: ignore[method-assign]
    return made


class _TooMuch(Exception):
    """A message whose layout is over a bound: it is shown as it was written."""


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The rule for tables, which fill each row up to the cells of the first one: a few bytes may name thousands."""
    columns = 1
    if start + 1 < end:
        columns += state.src.count("|", state.bMarks[start + 1], state.eMarks[start + 1])
    # So many rows are over the bound for sure. That there are more need not be found out.
    taken = table(state, start, min(end, start + MESSAGE_TOKENS_MAX // columns + 3), silent)
    if len(state.tokens) > MESSAGE_TOKENS_MAX:
        raise _TooMuch
    return taken


class _Renderer(RendererHTML):
    """Images become links: a page that loads nothing from elsewhere tells nobody that it was read."""

    def image(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        words = self.renderInlineAsText(token.children, options, env) or "image"
        return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(words)}</a>'


_blocks: Final = _make("normalize", "block")
_blocks.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
_inline: Final = _make("inline", "text_join")
_inline.renderer = _Renderer(_inline)


class Markdown:
    """One message. `elements` is a function of its arguments alone; what it did before only makes it quicker."""

    def __init__(self, id_: str) -> None:
        self._id = id_
        self._text = ""
        self._tops: list[tuple[int, list[Token]]] = []
        self._made: list[Element] = []
        self._inner: dict[tuple[str, str], str | None] = {}
        self._used: dict[tuple[str, str], str | None] = {}
        self._env: dict[str, Any] = {}
        self.rendered = 0

    def elements(self, text: str, *, growing: bool) -> list[Element]:
        """The message's blocks. Of a `growing` text an unfinished end is shown as what it is about to become."""
        text = clean(text)
        try:
            return self._laid_out(text, growing)
        except _TooMuch:
            self._tops, self._made = [], []
            why = element("p", f"{self._id}:why", AS_WRITTEN, class_="mark")
            return [plain("div", f"{self._id}:plain", text, class_="plain"), why]

    def _laid_out(self, text: str, growing: bool) -> list[Element]:
        if text.count("\n") > MESSAGE_LINES_MAX:
            raise _TooMuch
        shown = without_unfinished_line(text) if growing else text
        kept = self._read(shown)
        if sum(len(tokens) for _, tokens in self._tops) > MESSAGE_TOKENS_MAX:
            raise _TooMuch
        self._used = {}
        open_end = growing and not shown.endswith("\n\n")
        last = (
            next((it for it in reversed(self._tops[-1][1]) if it.type == "inline"), None)
            if open_end and self._tops
            else None
        )
        code = sum(len(it.content) for _, tokens in self._tops[:kept] for it in tokens if it.type in _LISTINGS)
        room = MESSAGE_HTML_CHARS + MESSAGE_HTML_TIMES * len(text) - _html_chars(self._made[:kept])
        making = _Making(self, growing, last, code, room)
        new = [
            making.block(f"{self._id}:{number}", tokens) for number, (_, tokens) in enumerate(self._tops[kept:], kept)
        ]
        self._made = self._made[:kept] + new
        self._inner = self._used
        if _count(self._made) > MESSAGE_BLOCKS_MAX or _names_bytes(self._made) > NAMES_BYTES_MAX:
            raise _TooMuch
        return self._made

    def _read(self, text: str) -> int:
        """Split the text into its top-level blocks, from where it may differ from what was read before: gives how many
        stay as they are."""
        start, kept = 0, list[tuple[int, list[Token]]]()
        if _DEFINITION.search(text):
            self._tops = []
        else:
            kept = self._tops[:-_KEPT_TOPS]
            start = self._tops[len(kept)][0] if kept else 0
            if kept and not text.startswith(self._text[:start]):
                kept, start = [], 0
            self._tops = kept
        env: dict[str, Any] = {}
        self._tops = self._tops + _tops(text, start, env)
        self._env, self._text = env, text
        return len(kept)

    def inner(self, kind: str, content: str) -> str | None:
        """The HTML inside a leaf, None when it is too large for one; made when it is not known from the last time."""
        references = repr(self._env.get("references")) if "[" in content and self._env.get("references") else ""
        key = (kind + references, content)
        for known in (self._used, self._inner):
            if key in known:
                return self._used.setdefault(key, known[key])
        self.rendered += 1
        made = self._used[key] = _inline_html(content, self._env)
        return made

    def code(self, text: str, language: str) -> str:
        """Code in one of `LANGUAGES` as HTML; made when it is not known from the last time."""
        key = (f"code {language}", text)
        made = self._inner.get(key)
        if made is None:
            self.rendered += 1
            made = coloured(text, language)
        self._used[key] = made
        return made


def _tops(text: str, start: int, env: dict[str, Any]) -> list[tuple[int, list[Token]]]:
    """(place in the text, tokens) of each top-level block from `start` on."""
    part = text[start:]
    places = [start]
    for line in part.split("\n"):
        places.append(places[-1] + len(line) + 1)
    tops: list[tuple[int, list[Token]]] = []
    for token in _blocks.parse(part, env):
        if token.level == 0 and token.nesting >= 0:
            assert token.map is not None
            tops.append((places[token.map[0]], []))
        tops[-1][1].append(token)
    return tops


def _inline_html(content: str, env: dict[str, Any]) -> str | None:
    state = StateCore("", _inline, env, [Token("inline", "", 0, content=content, children=[])])
    _inline.core.process(state)
    # What links lead to may be written once and named a thousand times: it is counted before it is written out.
    if sum(len(str(value)) for it in state.tokens[0].children or () for value in it.attrs.values()) > LEAF_BYTES_MAX:
        return None
    html = _inline.renderer.render(state.tokens, _inline.options, env)
    return nh3.clean(
        html,
        tags={"a", "em", "strong", "code", "s", "br"},
        attributes={"a": {"href"}},
        url_schemes={"http", "https", "mailto"},
        link_rel=_REL,
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _count(elements: Sequence[Element]) -> int:
    return len(elements) + sum(_count(one.children) for one in elements if one.children)


def _html_chars(elements: Sequence[Element]) -> int:
    return sum(len(one.html) + _html_chars(one.children or ()) for one in elements)


def _names_bytes(elements: Sequence[Element]) -> int:
    """Bytes, as a JSON list, of the names of one element's children: those of the one that has the most."""
    own = sum(len(one.id) + 3 for one in elements)
    return max(own, *(_names_bytes(one.children) for one in elements if one.children), 0)


class _Making:
    """Makes elements of the tokens of one message."""

    def __init__(self, message: Markdown, growing: bool, last: Token | None, code: int, room: int) -> None:
        self._message = message
        self._growing = growing
        self._last = last
        self._code = code
        self._room = room

    def children(self, parent: str, tokens: list[Token]) -> list[Element]:
        """The blocks in `parent`, which `tokens` are, each opened and closed."""
        made: list[Element] = []
        place = 0
        while place < len(tokens):
            end = place + 1
            if tokens[place].nesting == 1:
                end = _closing(tokens, place) + 1
            made.append(self.block(f"{parent}:{len(made)}", tokens[place:end]))
            place = end
        return made

    def block(self, id_: str, tokens: list[Token]) -> Element:
        """One block, which `tokens` are; its id begins with `id_`. Raises `_TooMuch` when there is no room for it."""
        made = self._block(id_, tokens)
        self._room -= len(made.html) if tokens[0].type in _CONTAINERS else _html_chars([made])
        if self._room < 0:
            raise _TooMuch
        return made

    def _block(self, id_: str, tokens: list[Token]) -> Element:
        first, within = tokens[0], tokens[1:-1]
        match first.type:
            case kind if kind in _LISTINGS:
                return self._listing(id_, first)
            case "hr":
                return Element(f"{id_}hr", f'<hr id="{id_}hr">')
            case "bullet_list_open" | "ordered_list_open":
                tight = any(token.hidden and token.level == first.level + 2 for token in within)
                start = first.attrs.get("start")
                id_ += first.tag
                return shell(
                    first.tag,
                    id_,
                    self.children(id_, within),
                    class_="tight" if tight else None,
                    start=None if start is None else str(start),
                    dir="auto",
                )
            case "list_item_open" | "blockquote_open" | "table_open" | "tbody_open":
                id_ += first.tag
                own = "auto" if first.tag in ("blockquote", "table") else None
                return shell(first.tag, id_, self.children(id_, within), dir=own)
            case "thead_open":
                html = self._cells(within[1:-1])
                if html is None:
                    return shell("thead", f"{id_}theadplain", [self._plain_row(id_, within[1:-1])])
                return element("thead", f"{id_}thead", f"<tr>{html}</tr>")
            case "tr_open":
                html = self._cells(within)
                return self._plain_row(id_, within) if html is None else element("tr", f"{id_}tr", html)
            case _:
                return self._text(id_, first, within)

    def _text(self, id_: str, first: Token, within: list[Token]) -> Element:
        """A paragraph or a heading. The page's own headings are above those of a message."""
        tag = f"h{min(int(first.tag[1]) + 2, 6)}" if first.type == "heading_open" else "p"
        (token,) = within
        html = None if len(token.content) > LEAF_TEXT_CHARS else self._inline(tag, token)
        if html is None or not in_frame(html):
            return plain("div", f"{id_}plain", token.content, class_="plain")
        return element(tag, f"{id_}{tag}", html)

    def _inline(self, kind: str, token: Token) -> str | None:
        return self._message.inner(kind, healed(token.content) if token is self._last else token.content)

    def _cells(self, tokens: list[Token]) -> str | None:
        """The cells of a row; None when they are too large for a leaf."""
        if sum(len(token.content) for token in tokens[1::3]) > LEAF_TEXT_CHARS:
            return None
        cells = []
        for opening, token in zip(tokens[::3], tokens[1::3], strict=True):
            side = str(opening.attrs.get("style", "")).removeprefix("text-align:")
            align = f' class="{side}"' if side in ("center", "right") else ""
            html = self._inline(opening.tag, token)
            if html is None:
                return None
            cells.append(f"<{opening.tag}{align}>{html}</{opening.tag}>")
        html = "".join(cells)
        return html if in_frame(html) else None

    def _plain_row(self, id_: str, tokens: list[Token]) -> Element:
        """A row as one cell with the text of all, as it was written."""
        text = " | ".join(token.content for token in tokens[1::3])
        cell = plain(tokens[0].tag, f"{id_}cellplain", text, class_="plain", colspan=str(len(tokens) // 3))
        return shell("tr", f"{id_}trplain", [cell])

    def _listing(self, id_: str, token: Token) -> Element:
        """Code. While it grows it has no colours: each line more may change those of all others."""
        text = token.content.removesuffix("\n")
        language = token.info.split()[0].lower() if token.info.strip() else ""
        named = language if _LANGUAGE.fullmatch(language) else None
        open_ = self._growing and token.type == "fence" and not _closed(token)
        id_ += "pre"
        attributes: dict[str, str | bool | None] = {"class_": "hl", "data_copyable": True, "data_lang": named}
        self._code += len(token.content)
        quick = language in LANGUAGES and self._code <= CODE_COLOURED_CHARS and not open_
        html = self._message.code(text, language) if quick else str(escape(text))
        lines = html.split("\n")
        groups = [lines[start : start + CODE_LINES_LEAF] for start in range(0, len(lines), CODE_LINES_LEAF)]
        # Each group but the last ends in its LF: the groups follow each other without anything between them.
        pieces = ["\n".join(group) + "\n" * (number < len(groups) - 1) for number, group in enumerate(groups)]
        if not all(map(in_frame, pieces)):
            return plain("pre", f"{id_}plain", text, **attributes)
        leaves = [element("code", f"{id_}:{number}", piece) for number, piece in enumerate(pieces)]
        return shell("pre", id_, leaves, tabindex="0", **attributes)


def _closing(tokens: list[Token], place: int) -> int:
    level = tokens[place].level
    return next(i for i in range(place + 1, len(tokens)) if tokens[i].nesting == -1 and tokens[i].level == level)


def _closed(token: Token) -> bool:
    """Whether a fence has its end: its lines are then two more than those of its content."""
    assert token.map is not None
    lines = token.content.count("\n") + (token.content[-1:] not in ("", "\n"))
    return token.map[1] - token.map[0] == lines + 2
