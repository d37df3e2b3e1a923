"""The morph makes a live tree equal to a fresh one, and rebuilds nothing that is there already (P9)."""

from __future__ import annotations

import html
import random
from typing import Any, Final

import pytest
from playwright.sync_api import Page

RUNS: Final = 300
TREES_A_CALL: Final = 50

MORPH: Final = """async ([pairs]) => {
  const { morph, parse } = await import("/morph.js");
  return pairs.map(([before, after]) => {
    const live = parse(before).firstElementChild;
    document.body.append(live);
    const ids = new Map([...live.querySelectorAll("[id]")].map((node) => [node.nodeName + node.id, node]));
    const now = morph(live, parse(after).firstElementChild);
    const want = parse(after).firstElementChild;
    const rebuilt = [...now.querySelectorAll("[id]")].filter((node) => {
      const parent = ids.get(node.parentNode.nodeName + node.parentNode.id);
      const old = ids.get(node.nodeName + node.id);
      return old && old !== node && parent === node.parentNode && node.dataset.in === old.dataset.in;
    });
    const result = { equal: now.isEqualNode(want), html: now.outerHTML, rebuilt: rebuilt.map((node) => node.id) };
    now.remove();
    return result;
  });
}"""


def tree(rng: random.Random, ids: list[str], depth: int = 0) -> str:
    """Random HTML of one element; each of `ids` stands in it at most once."""
    tag = rng.choice(["div", "p", "ul", "section"]) if depth else "div"
    name = ids.pop(rng.randrange(len(ids))) if ids and depth and rng.random() < 0.6 else None
    attributes = "".join(f' {attribute}="{rng.randrange(3)}"' for attribute in "abc" if rng.random() < 0.3)
    inside = ""
    if tag != "p" and depth < 4:
        inside = "".join(
            tree(rng, ids, depth + 1) if rng.random() < 0.7 else html.escape(rng.choice("xyz<&") * rng.randrange(4))
            for _ in range(rng.randrange(5))
        )
    elif rng.random() < 0.8:
        inside = html.escape("".join(rng.choice("ab 😀") for _ in range(rng.randrange(9))))
    return f"<{tag}{f' id={name}' if name else ''}{attributes}>{inside}</{tag}>"


def test_any_tree_becomes_any_other(bare: Page) -> None:
    """morph(a, b) equals b for random trees, with and without ids, whatever moves, comes and goes (P9)."""
    rng = random.Random(20)
    for _ in range(RUNS // TREES_A_CALL):
        pairs = [[tree(rng, list("klmnopq")) for _ in range(2)] for _ in range(TREES_A_CALL)]
        for pair, got in zip(pairs, bare.evaluate(MORPH, [pairs]), strict=True):
            assert got["equal"], (pair, got["html"])


def changed(rng: random.Random, items: list[str]) -> list[str]:
    """Other keys in another order, some of them the old ones."""
    kept = [item for item in items if rng.random() < 0.7]
    rng.shuffle(kept)
    for new in range(rng.randrange(3)):
        kept.insert(rng.randrange(len(kept) + 1), f"new{new}")
    return kept


def test_keyed_children_stay_the_nodes_they_are(bare: Page) -> None:
    """Children with ids are moved into the new order as the nodes they are, none rebuilt."""
    rng = random.Random(21)
    pairs = []
    for _ in range(100):
        before = [f"k{number}" for number in range(rng.randrange(1, 9))]
        lists = (before, changed(rng, before))
        pairs.append(["<ul>" + "".join(f"<li id={key}>{key}</li>" for key in keys) + "</ul>" for keys in lists])
    script = """async ([pairs]) => {
      const { morph, parse } = await import("/morph.js");
      return pairs.map(([before, after]) => {
        const live = parse(before).firstElementChild;
        const old = new Map([...live.children].map((node) => [node.id, node]));
        const now = morph(live, parse(after).firstElementChild);
        return [...now.children].every((node) => !old.has(node.id) || old.get(node.id) === node)
          && now.outerHTML === parse(after).firstElementChild.outerHTML;
      });
    }"""
    assert all(bare.evaluate(script, [pairs]))


CASES: Final = {
    "text grows": ("<p>one two</p>", "<p>one two three</p>", "p.firstChild"),
    "a sibling before goes": ("<div><b id=x>gone</b><p>stays</p></div>", "<div><p>stays</p></div>", "p"),
    "a sibling of its kind comes behind": ("<div><p>1</p></div>", "<div><p>1</p><p>2</p></div>", "p"),
    "an attribute changes": ("<div class=a><p>1</p></div>", "<div class=b><p>1</p></div>", "p"),
    "another kind comes before": ("<div><p>1</p></div>", "<div><h2>0</h2><p>1</p></div>", "p"),
}


@pytest.mark.parametrize("name", CASES)
def test_no_node_is_rebuilt_needlessly(bare: Page, name: str) -> None:
    """A node that has a counterpart in the new tree stays the node it is."""
    before, after, what = CASES[name]
    script = f"""async ([before, after]) => {{
      const {{ morph, parse }} = await import("/morph.js");
      const live = parse(before).firstElementChild;
      document.body.append(live);
      const find = () => {{ const p = document.querySelector("p"); return {what}; }};
      const old = find();
      morph(live, parse(after).firstElementChild);
      return [old === find(), document.body.innerHTML];
    }}"""
    same, got = bare.evaluate(script, [before, after])
    assert (same, got.replace('"', "").replace("'", "")) == (True, after)


def run(page: Page, before: str, do: str, after: str, tell: str) -> Any:
    """Show `before`, run `do`, morph it to `after`, and answer `tell`; scripts know the element as `live`."""
    script = f"""async ([before, after]) => {{
      const {{ morph, parse }} = await import("/morph.js");
      const live = parse(before).firstElementChild;
      document.body.replaceChildren(live);
      {do};
      morph(live, parse(after).firstElementChild);
      return {tell};
    }}"""
    return page.evaluate(script, [before, after])


def test_a_selection_in_a_growing_paragraph_stays(bare: Page) -> None:
    """What a person selected in a paragraph stays selected while the paragraph grows, also when its end changes."""
    select = "getSelection().setBaseAndExtent(live.firstChild, 2, live.firstChild, 5)"
    assert run(bare, "<p>0123456789</p>", select, "<p>0123456789 and on</p>", "String(getSelection())") == "234"
    assert run(bare, "<p>0123456*</p>", select, "<p>0123456<b>7</b></p>", "String(getSelection())") == "234"


def test_what_a_person_opened_stays_open(bare: Page) -> None:
    """The open state of details is the person's: neither an open nor a closed fresh tree changes it."""
    closed, opened = "<details><summary>a</summary>x</details>", "<details open><summary>b</summary>y</details>"
    assert run(bare, closed, "live.open = true", closed.replace("x", "y"), "live.open") is True
    assert run(bare, opened, "live.open = false", opened.replace("y", "z"), "live.open") is False


def test_typed_text_and_focus_stay(bare: Page) -> None:
    """The field a person types into keeps text, caret and focus while what surrounds it changes and moves."""
    typed = "const f = live.querySelector('input'); f.focus(); f.value = 'typed'; f.setSelectionRange(2, 2)"
    tell = "[document.activeElement.id, document.activeElement.value, document.activeElement.selectionStart]"
    before = "<div><i id=a></i><i id=b></i><input id=f value=server></div>"
    after = "<div><input id=f value=other><u id=c></u><i id=b></i></div>"
    assert run(bare, before, typed, after, tell) == ["f", "typed", 2]


def test_what_the_client_owns_is_left_alone(bare: Page) -> None:
    """A ticker's text, a shell's fragments and rows loaded later survive a morph that does not have them."""
    before = (
        "<div><b data-live data-since=1>5 s</b><section data-shell id=s class=a><p id=x>kept</p></section>"
        "<div data-keep><p>loaded</p></div></div>"
    )
    after = (
        "<div><b data-live data-since=2>0 s</b><section data-shell id=s class=b></section><div data-keep></div></div>"
    )
    want = '<b data-live="" data-since="2">5 s</b><section data-shell="" id="s" class="b"><p id="x">kept</p></section>'
    got = run(bare, before, "", after, "live.innerHTML")
    assert got == want + '<div data-keep=""><p>loaded</p></div>'


# --- operations ------------------------------------------------------------------------------------------------


def apply(page: Page, body: str, operations: list[Any]) -> str:
    """The body after operations of a frame."""
    script = """async ([body, operations]) => {
      const { apply, parse } = await import("/morph.js");
      document.body.replaceChildren(parse(body));
      for (const operation of operations) apply(operation);
      return document.body.innerHTML;
    }"""
    got: str = page.evaluate(script, [body, operations])
    return got.replace('"', "")


def test_put_inserts_morphs_and_moves(bare: Page) -> None:
    """`put` makes an element stand directly after another one: new, changed or moved (P9)."""
    body = "<ol id=o><li id=a>a</li><li id=b>b</li></ol>"
    put: list[Any] = ["put", "o", "a", "<li id=c>c</li>"]
    assert apply(bare, body, [put]) == "<ol id=o><li id=a>a</li><li id=c>c</li><li id=b>b</li></ol>"
    put = ["put", "o", None, "<li id=b class=n>B</li>"]
    assert apply(bare, body, [put]) == "<ol id=o><li id=b class=n>B</li><li id=a>a</li></ol>"
    assert apply(bare, body, [put, put]) == apply(bare, body, [put])


def test_keep_removes_and_orders(bare: Page) -> None:
    """`keep` leaves the listed children in the listed order, and no other (P9)."""
    body = "<ol id=o><li id=a>a</li><li id=b>b</li><li id=c>c</li></ol>"
    assert apply(bare, body, [["keep", "o", ["c", "a"]]]) == "<ol id=o><li id=c>c</li><li id=a>a</li></ol>"
    assert apply(bare, body, [["keep", "o", []]]) == "<ol id=o></ol>"


@pytest.mark.parametrize("operation", [["put", "no", None, "<p id=x></p>"], ["keep", "o", ["no"]], ["other", "o", 1]])
def test_an_operation_that_does_not_fit_is_refused(bare: Page, operation: list[Any]) -> None:
    """An operation on what is not there raises, so that the page is taken anew instead of being wrong (P4)."""
    script = """async ([operation]) => {
      const { apply, parse } = await import("/morph.js");
      document.body.replaceChildren(parse("<ol id=o></ol>"));
      try { apply(operation); return "applied"; } catch (error) { return error.message; }
    }"""
    assert bare.evaluate(script, [operation]).startswith("no ")


def test_html_reaches_the_document_through_the_one_policy_only(bare: Page) -> None:
    """Under the page's security policy a text set as HTML is refused, and scripts in parsed HTML do not run."""
    script = """async () => {
      const { parse } = await import("/morph.js");
      document.body.append(parse("<img src=/x onerror='window.ran = 1'><script>window.ran = 1</script>"));
      try { document.body.innerHTML = "<p>"; return "taken"; } catch (error) { return [error.name, window.ran ?? 0]; }
    }"""
    assert bare.evaluate(script) == ["TypeError", 0]
