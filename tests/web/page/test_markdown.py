"""Markdown as elements: the same whatever was read before, and safe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.page.dom import parse
from turnlog.web.page.growing import healed, without_unfinished_line
from turnlog.web.page.markdown import Markdown
from turnlog.web.page.markup import page_html

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
