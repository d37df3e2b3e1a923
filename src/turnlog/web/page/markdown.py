"""Markdown as elements: one leaf for each paragraph, table row or group of lines of code.

So of a growing answer only what changed is sent. What an agent wrote stays text: no raw HTML, no images from elsewhere,
links only to the web and to mail; an allow-list goes over the result once more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from turnlog.limits import CHILDREN_MAX, MESSAGE_BLOCKS_MAX
from turnlog.web.page.growing import healed, without_unfinished_line
from turnlog.web.page.markup import Element, clean, element, plain, shell

CODE_LINES: Final = 12
"""Lines of code in one leaf: of a growing listing only the last leaf is sent again."""

CODE_LINE_CHARS: Final = 2_000
"""Code with longer lines is shown plain, in pieces."""

LINES_MAX: Final = 2_000
"""A message of more lines is shown as plain text: to find out what its lines are would take longer than a frame may."""

LEAF_CHARS_MAX: Final = 6_000
"""A longer paragraph, heading or row is shown plain: with its markup it could outgrow a frame."""

HIGHLIGHT_CHARS_MAX: Final = 30_000
"""Longer code keeps one colour: colouring it takes as long as the rest of the page."""

_KEPT_TOPS: Final = 3
"""Blocks at the end that are read again when text is added. What is added can change the last block, and join it with
the one before (`#` begins a heading, `#x` goes on with a paragraph)."""

_DEFINITION: Final = re.compile(r"\]:")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,20}")
_SCHEMES: Final = re.compile(r"(https?|mailto):", re.IGNORECASE)
_REL: Final = "noopener noreferrer nofollow"


def _make(*core: str) -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 12}).enable(["table", "strikethrough"])
    made.disable(["html_block", "html_inline"])
    made.core.ruler.enableOnly(core)
    made.validateLink = lambda url: bool(_SCHEMES.match(url))  # type: ignore[method-assign]
    return made


class _Renderer(RendererHTML):
    """Images become links: a page that loads nothing from elsewhere tells nobody that it was read."""

    def image(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        words = self.renderInlineAsText(token.children, options, env) or "image"
        return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(words)}</a>'


_blocks: Final = _make("normalize", "block")
_inline: Final = _make("inline", "text_join")
_inline.renderer = _Renderer(_inline)


class Markdown:
    """One message. `elements` is a function of its arguments alone; what it did before only makes it quicker."""

    def __init__(self, id_: str) -> None:
        self._id = id_
        self._text = ""
        self._tops: list[tuple[int, list[Token]]] = []
        self._made: list[Element] = []
        self._inner: dict[tuple[str, str], str] = {}
        self._used: dict[tuple[str, str], str] = {}
        self._env: dict[str, Any] = {}
        self.rendered = 0

    def elements(self, text: str, *, growing: bool) -> list[Element]:
        """The message's blocks. Of a `growing` text an unfinished end is shown as what it is about to become."""
        text = clean(text)
        if text.count("\n") > LINES_MAX:
            return self._plain(text)
        shown = without_unfinished_line(text) if growing else text
        kept = self._read(shown)
        self._used = {}
        open_end = growing and not shown.endswith("\n\n")
        last = (
            next((it for it in reversed(self._tops[-1][1]) if it.type == "inline"), None)
            if open_end and self._tops
            else None
        )
        making = _Making(self, growing, last)
        new = [
            making.block(f"{self._id}:{kept + number}", tokens) for number, (_, tokens) in enumerate(self._tops[kept:])
        ]
        self._made = self._made[:kept] + new
        self._inner = self._used
        if _count(self._made) > MESSAGE_BLOCKS_MAX or _widest(self._made) > CHILDREN_MAX:
            return self._plain(text)
        return self._made

    def _plain(self, text: str) -> list[Element]:
        return [plain("div", f"{self._id}:plain", text, class_="plain")]

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

    def inner(self, kind: str, content: str) -> str:
        """The HTML inside a leaf; made when it is not known from the last time."""
        references = repr(self._env.get("references")) if "[" in content and self._env.get("references") else ""
        key = (kind + references, content)
        made = self._inner.get(key) or self._used.get(key)
        if made is None:
            self.rendered += 1
            made = _inline_html(content, self._env)
        self._used[key] = made
        return made

    def code(self, text: str, language: str, *, coloured: bool) -> list[str]:
        """The lines of a listing as HTML; made when it is not known from the last time."""
        key = (f"code {language} {coloured}", text)
        made = self._inner.get(key)
        if made is None:
            self.rendered += 1
            made = _coloured(text, language) if coloured else str(escape(text))
        self._used[key] = made
        return made.split("\n")


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


def _inline_html(content: str, env: dict[str, Any]) -> str:
    state = StateCore("", _inline, env, [Token("inline", "", 0, content=content, children=[])])
    _inline.core.process(state)
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


def _widest(elements: Sequence[Element]) -> int:
    """The most children that one element has."""
    return max(len(elements), *(_widest(one.children) for one in elements if one.children), 0)


class _Making:
    """Makes elements of the tokens of one message."""

    def __init__(self, message: Markdown, growing: bool, last: Token | None) -> None:
        self._message = message
        self._growing = growing
        self._last = last

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
        """One block, which `tokens` are; its id begins with `id_`."""
        first, within = tokens[0], tokens[1:-1]
        match first.type:
            case "fence" | "code_block":
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
                )
            case "list_item_open" | "blockquote_open" | "table_open" | "tbody_open":
                id_ += first.tag
                return shell(first.tag, id_, self.children(id_, within))
            case "thead_open":
                return element("thead", f"{id_}thead", self._row(tokens[1:-1]))
            case "tr_open":
                return element("tr", f"{id_}tr", self._cells(within))
            case _:
                return self._text(id_, first, within)

    def _text(self, id_: str, first: Token, within: list[Token]) -> Element:
        """A paragraph or a heading. The page's own headings are above those of a message."""
        tag = f"h{min(int(first.tag[1]) + 2, 6)}" if first.type == "heading_open" else "p"
        content = "".join(token.content for token in within)
        if len(content) > LEAF_CHARS_MAX:
            return plain("div", f"{id_}plain", content, class_="plain")
        return element(tag, f"{id_}{tag}", "".join(self._inline(tag, token) for token in within))

    def _inline(self, kind: str, token: Token) -> str:
        content = healed(token.content) if token is self._last else token.content
        return self._message.inner(kind, content[:LEAF_CHARS_MAX])

    def _row(self, tokens: list[Token]) -> str:
        return "<tr>" + self._cells(tokens[1:-1]) + "</tr>"

    def _cells(self, tokens: list[Token]) -> str:
        cells = []
        for opening, token in zip(tokens[::3], tokens[1::3], strict=True):
            side = str(opening.attrs.get("style", "")).removeprefix("text-align:")
            align = f' class="{side}"' if side in ("center", "right") else ""
            cells.append(f"<{opening.tag}{align}>{self._inline(opening.tag, token)}</{opening.tag}>")
        return "".join(cells)

    def _listing(self, id_: str, token: Token) -> Element:
        """Code. While it grows it has no colours: each line more may change those of all others."""
        text = token.content.removesuffix("\n")
        language = token.info.split()[0] if token.info.strip() else ""
        open_ = self._growing and token.type == "fence" and not _closed(token)
        id_ += "pre"
        attributes: dict[str, str | bool | None] = {
            "class_": "hl",
            "data_copyable": True,
            "data_lang": language or None,
        }
        if max(map(len, text.split("\n"))) > CODE_LINE_CHARS:
            return plain("pre", f"{id_}plain", text, **attributes)
        known = bool(_LANGUAGE.fullmatch(language)) and len(text) <= HIGHLIGHT_CHARS_MAX and not open_
        lines = self._message.code(text, language, coloured=known)
        groups = [lines[start : start + CODE_LINES] for start in range(0, len(lines), CODE_LINES)]
        # Each group but the last ends in its LF: the groups follow each other without anything between them.
        leaves = [
            element("code", f"{id_}:{number}", "\n".join(group) + "\n" * (number < len(groups) - 1))
            for number, group in enumerate(groups)
        ]
        return shell("pre", id_, leaves, tabindex="0", **attributes)


def _closing(tokens: list[Token], place: int) -> int:
    level = tokens[place].level
    return next(i for i in range(place + 1, len(tokens)) if tokens[i].nesting == -1 and tokens[i].level == level)


def _closed(token: Token) -> bool:
    """Whether a fence has its end: its lines are then two more than those of its content."""
    assert token.map is not None
    lines = token.content.count("\n") + (token.content[-1:] not in ("", "\n"))
    return token.map[1] - token.map[0] == lines + 2


@lru_cache(maxsize=128)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


_formatter: Final = HtmlFormatter(nowrap=True)


def _coloured(text: str, language: str) -> str:
    """Code with its words marked, line for line the same; plain when the language is not known."""
    lexer = _lexer(language)
    plain_text = str(escape(text))
    if lexer is None:
        return plain_text
    html = str(highlight(text, lexer, _formatter)).removesuffix("\n")
    html = nh3.clean(html, tags={"span"}, attributes={"span": {"class"}})
    return html if html.count("\n") == text.count("\n") else plain_text
