"""Markdown as elements: the same whatever was read before, and safe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.page.dom import parse
from turnlog.events.codec import encode_json
from turnlog.limits import LEAF_BYTES_MAX, MESSAGE_HTML_CHARS, MESSAGE_HTML_TIMES
from turnlog.web.page.growing import healed, without_unfinished_line
from turnlog.web.page.listings import LANGUAGES
from turnlog.web.page.markdown import AS_WRITTEN, Markdown
from turnlog.web.page.markup import flat, page_html

PIECES = st.sampled_from(
    ["word ", "\n", "\n\n", "# ", "#", "- ", "  - ", "1. ", "> ", "`", "```", "```py\n", "~~~\n", "**", "*", "_", "|",
     "|-|-|\n", "| a | b |\n", "[x](http://a.b)", "[x]: http://a.b\n", "[x]", "![i](https://i)", "---\n", "===\n",
     "    ", "<b>", "&amp;", "\\", "\t", "\r\n", "\x00", "\ud83d", "é", "😀", "http://a.b "]
)  # fmt: skip


def html(text: str, *, growing: bool = False) -> str:
    return page_html(Markdown("m").elements(text, growing=growing))


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_what_was_read_before_makes_no_difference(pieces: list[str], cuts: list[int]) -> None:
    """A text has the same elements however it grew: a reload shows what was shown live (P9)."""
    grown = Markdown("m")
    for cut in sorted(cuts):
        text = "".join(pieces[:cut])
        assert grown.elements(text, growing=True) == Markdown("m").elements(text, growing=True)
    whole = "".join(pieces)
    assert grown.elements(whole, growing=False) == Markdown("m").elements(whole, growing=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=60), st.booleans())
def test_no_text_is_markup(pieces: list[str], growing: bool) -> None:
    """Whatever a model writes becomes elements of the allow-list, each with no attribute but its own."""
    allowed = {
        "id",
        "data-shell",
        "class",
        "start",
        "tabindex",
        "data-copyable",
        "data-lang",
        "href",
        "rel",
        "target",
        "dir",
    }
    for node in parse(html("".join(pieces), growing=growing)).walk():
        assert node.tag in ALLOWED, node.tag
        assert set(node.attributes) <= allowed
        assert node.attributes.get("href", "http:").lower().startswith(("http:", "https:", "mailto:"))


ALLOWED = {
    "#root", "p", "h3", "h4", "h5", "h6", "hr", "ul", "ol", "li", "blockquote", "pre", "code", "span", "div", "table",
    "thead", "tbody", "tr", "th", "td", "a", "em", "strong", "s", "br",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](java&#x0A;script:alert(1))",
        "[a](data:text/html,x)",
        "![a](javascript:alert(1))",
        "<javascript:alert(1)>",
        "[a](vbscript:x)",
        "[a](//evil.example)",
        "[a][b]\n\n[b]: javascript:alert(1)",
    ],
)
def test_links_lead_to_the_web_only(text: str) -> None:
    """A link of another scheme stays text."""
    assert "href" not in html(text)


def test_links_tell_nothing_and_open_beside() -> None:
    """A link tells its target neither where it was nor gives it the window; an image is a link, and loads nothing."""
    (link,) = [node for node in parse(html("![a cat](https://example.org/cat.png)")).walk() if node.tag == "a"]
    assert link.attributes == {
        "href": "https://example.org/cat.png",
        "target": "_blank",
        "rel": "noopener noreferrer nofollow",
    }
    assert link.text == "a cat"


def test_code_is_all_there() -> None:
    """The text of a listing is its code, with its empty lines and spaces, in colours or not."""
    code = "def f():\n\n\n    return '''<b>\n\n  &amp; x'''\n\n" + "".join(f"x{number} = 1\n" for number in range(40))
    for language in ("python", "no-such", ""):
        for growing in (False, True):
            (listing,) = parse(html(f"```{language}\n{code}```", growing=growing)).children
            assert not isinstance(listing, str)
            assert listing.text == code.removesuffix("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **bo", "a **bo**"),
        ("a **", "a"),
        ("a `co", "a `co`"),
        ("a `", "a"),
        ("see [the docs](https://exa", "see the docs"),
        ("see [the docs](https://example.org)", "see [the docs](https://example.org)"),
        ("~~gone", "~~gone~~"),
        ("an *em", "an *em*"),
        ("2 * 3", "2 * 3"),
        ("`**` is bold", "`**` is bold"),
    ],
)
def test_an_open_end_is_closed(text: str, shown: str) -> None:
    """What a growing paragraph has opened looks as it will, and no mark flickers."""
    assert healed(text).rstrip() == shown


@pytest.mark.parametrize(
    "line", ["-", "- ", "#", "##", "1", "1.", "```", "`", ">", "|", "|--", "--", "===", "*", "**", "+"]
)
def test_a_line_of_marks_waits(line: str) -> None:
    """A last line of which nobody knows what it begins does not change what stands before it."""
    assert without_unfinished_line(f"text\n{line}") == "text"
    assert without_unfinished_line(f"text\n{line} word") == f"text\n{line} word"


def test_loose_and_tight_lists_are_told_apart() -> None:
    """A list is tight by its own items, whatever is in them."""
    assert 'class="tight"' in html("- a\n- b").partition(">")[0]
    assert 'class="tight"' not in html("- a\n\n  - x\n  - y\n\n- b").partition(">")[0]


REFERENCE = f"[a]: http://{'x' * 2_000}\n\n"

GROWERS = {
    "a reference named often": REFERENCE + "[a] " * 1_500,
    "a reference named in each paragraph": REFERENCE + ("[a] " * 20 + "\n\n") * 300,
    "a reference named in each item": REFERENCE + ("- " + "[a]" * 25 + "\n") * 600,
    "a long reference": f"[a]: http://{'x' * 50_000}\n\n" + "[a]" * 1_600,
    "an image named often": REFERENCE + "![a] " * 1_500,
    "short links": "<a@b>" * 10_000,
    "short links in each paragraph": ("<a@b>" * 1_100 + "\n\n") * 10,
    "rows that are filled up": f"|{'a|' * 200}\n|{'-|' * 200}\n" + "|\n" * 1_900,
    "tables that are filled up": (f"|{'a|' * 60}\n|{'-|' * 60}\n" + "|\n" * 10 + "\n") * 130,
    "a reference in each cell": REFERENCE + f"|{'a|' * 300}\n|{'-|' * 300}\n|{'[a]|' * 300}\n",
    "marks in code": "```js\n" + ("{" * 1_990 + "\n") * 15,
    "control characters in code": "```\n" + ("\x01" * 1_900 + "\n") * 5,
    "the name of a language": f"```{'x' * 50_000}\na",
    "names of many deep items": "> - > - > - > - > - > -\n" + "> - > - > - > - > - > -\n>\n" * 400,
    "lists in lists": "- - - - - - - - - - -\n" * 1_900,
}
"""Texts that become much more than they are, each by another way."""


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("text", GROWERS.values(), ids=GROWERS)
def test_no_text_becomes_much_more_than_it_is(text: str, growing: bool) -> None:
    """Each leaf fits a frame, so do the names of what one element holds, and a message is at most some times its text
    (P11)."""
    fragments = list(flat(Markdown("m").elements(text, growing=growing), "t"))
    assert max(len(encode_json(it.html)) for it in fragments) < LEAF_BYTES_MAX + 1_024
    inside: dict[str, list[str]] = {}
    for it in fragments:
        inside.setdefault(it.parent, []).append(it.id)
    assert max(len(encode_json(ids)) for ids in inside.values()) < LEAF_BYTES_MAX
    assert sum(len(it.html) for it in fragments) < 2 * MESSAGE_HTML_CHARS + MESSAGE_HTML_TIMES * len(text)


def test_a_message_that_is_too_large_is_whole_and_says_so() -> None:
    """What cannot be laid out is shown as it was written, to the last character, and the page tells that it is."""
    text = GROWERS["a reference named in each paragraph"]
    shown, why = parse(html(text)).children
    assert not isinstance(shown, str) and not isinstance(why, str)
    assert shown.text == text
    assert why.text == AS_WRITTEN
    assert AS_WRITTEN not in html(text[:20_000].replace("[a] ", "a "))


@pytest.mark.parametrize("cell", ["word " * 3_000, "\x01" * 5_900, "<a@b>" * 1_000, "[a](http://b.c) " * 600])
@pytest.mark.parametrize("place", [0, 1])
def test_no_cell_is_cut(cell: str, place: int) -> None:
    """A table's row that is too large to be laid out has all its text, beside rows that are laid out."""
    rows = [["one", "two"], ["three", "*four*"], ["five", "six"]]
    rows[place][1] = cell
    lines = [f"| {first} | {second} |" for first, second in rows]
    shown = parse(html("\n".join([lines[0], "|-|-|", *lines[1:]])))
    assert cell.strip() in shown.text
    assert all(word in shown.text for word in ("three", "five", "six"))
    assert ("*four*" in shown.text) is (cell == "*four*")


def test_languages_are_known() -> None:
    """Each language whose code is coloured has colours."""
    for language in sorted(LANGUAGES):
        assert "<code" in html(f"```{language}\nx = 1\n```"), language


def test_code_is_coloured_up_to_a_length() -> None:
    """A message's code has colours as far as it is short, however it grew; what comes after has one colour (P9)."""
    listing = "```py\n" + "if x: pass\n" * 100 + "```\n\n"
    text = listing * 5
    shown = html(text)
    pres = [it for it in parse(shown).walk() if it.tag == "pre"]
    assert [any(it.tag == "span" for it in pre.walk()) for pre in pres] == [True, True, True, False, False]
    grown = Markdown("m")
    for end in range(0, len(text), 333):
        grown.elements(text[:end], growing=True)
    assert page_html(grown.elements(text, growing=False)) == shown
