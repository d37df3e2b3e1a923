// Makes a live tree equal to a fresh one without rebuilding what is there: what a person selected, typed, opened or
// focused stays. The server's operations (put, keep) are applied with it.

/** Trusted Types are not everywhere yet; where they are, this is the page's one policy. */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("turnlog", {
  createHTML: (/** @type {string} */ html) => html,
});

/** The nodes of our server's HTML, outside of the document. @param {string} html @returns {DocumentFragment} */
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

/** Make `live` equal to `fresh`; answers the node that now stands there, which is `live` unless the tags differ.
 * A shell's children are left alone, unless the `whole` tree is at hand.
 * @template {Node} N @param {N} live @param {N} fresh @returns {N} */
export function morph(live, fresh, whole = false) {
  if (live.nodeName !== fresh.nodeName) {
    /** @type {any} */ (live).replaceWith(fresh);
    return fresh;
  }
  if (live instanceof Element && fresh instanceof Element) {
    const own = isOwn(live, fresh, whole);
    morphAttributes(live, fresh);
    if (!own) morphChildren(live, fresh, whole);
  } else if (live instanceof CharacterData && fresh instanceof CharacterData) morphText(live, fresh.data);
  return live;
}

/** Whether the children of `live` are not the fresh element's matter: a shell's fragments, a ticker, rows loaded later.
 * @param {Element} live @param {Element} fresh @param {boolean} whole */
function isOwn(live, fresh, whole) {
  if (fresh.hasAttribute("data-shell") && !whole) return true;
  if (fresh.hasAttribute("data-live") && live.hasAttribute("data-live")) return true;
  return fresh.hasAttribute("data-keep") && !fresh.firstElementChild;
}

/** @param {Element} live @param {Element} fresh */
function morphAttributes(live, fresh) {
  const mine = (/** @type {string} */ name) =>
    (name === "open" && live.nodeName === "DETAILS") ||
    (["value", "tabindex"].includes(name) && live === document.activeElement);
  for (const { name, value } of fresh.attributes) {
    if (!mine(name) && live.getAttribute(name) !== value) live.setAttribute(name, value);
  }
  for (const { name } of [...live.attributes]) {
    if (!mine(name) && !fresh.hasAttribute(name)) live.removeAttribute(name);
  }
}

/** Change only what follows the common beginning: a selection in it stays.
 * @param {CharacterData} live @param {string} text */
function morphText(live, text) {
  const old = live.data;
  if (old === text) return;
  let same = 0;
  if (text.startsWith(old)) same = old.length;
  else while (old[same] === text[same]) same++;
  live.replaceData(same, old.length - same, text.slice(same));
}

/** What matches a child: its id, else its place among those of its name. One form never becomes another: who presses
 * Stop twice shall not find Retry under the finger. @param {Node} node */
const keyOf = (node) =>
  node instanceof Element ? `${node.nodeName}#${node.id || node.getAttribute("action")}` : node.nodeName;

/** @param {Element} live @param {Element} fresh @param {boolean} whole */
function morphChildren(live, fresh, whole) {
  /** @type {Map<string, ChildNode[]>} */
  const there = new Map();
  for (const node of live.childNodes) {
    const key = keyOf(node);
    if (!there.get(key)?.push(node)) there.set(key, [node]);
  }
  const pairs = [...fresh.childNodes].map((want) => ({ want, have: there.get(keyOf(want))?.shift() }));
  // What goes is gone first: then nothing that stays has to move because of it.
  for (const nodes of there.values()) for (const node of nodes) node.remove();
  let at = live.firstChild;
  for (const { want, have } of pairs) {
    if (have) place(live, morph(have, want, whole), at);
    else live.insertBefore(want, at);
    at = (have ?? want).nextSibling;
  }
}

/** Let `node` stand before `at`; moving keeps focus where the browser can.
 * @param {Node} parent @param {Node} node @param {Node | null} at */
function place(parent, node, at) {
  if (node === at) return;
  const move = node.parentNode === parent && "moveBefore" in parent ? "moveBefore" : "insertBefore";
  /** @type {any} */ (parent)[move](node, at);
}

/** The element of an id, or an error: then the page is not what the server thinks. @param {string} id */
function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/** Apply one operation of a frame. @param {[string, string, any, string?]} operation */
export function apply([name, parentId, what, html]) {
  const parent = element(parentId);
  if (name === "put") put(parent, what && element(what), html ?? "");
  else if (name === "keep") keep(parent, what);
  else throw new Error(`no operation ${name}`);
}

/** @param {Element} parent @param {Element | null} after @param {string} html */
function put(parent, after, html) {
  const fresh = /** @type {Element} */ (parse(html).firstElementChild);
  const live = document.getElementById(fresh.id);
  const node = live ? morph(live, fresh) : fresh;
  if (node.parentNode !== parent || node.previousElementSibling !== after) {
    place(parent, node, after ? after.nextSibling : parent.firstChild);
  }
}

/** @param {Element} parent @param {string[]} ids */
function keep(parent, ids) {
  // Rows that are loaded later stay until then, though they may be old.
  if (!ids.length && parent.hasAttribute("data-keep")) return parent.removeAttribute("data-loaded");
  const listed = new Set(ids);
  for (const child of [...parent.children]) if (!listed.has(child.id)) child.remove();
  let at = parent.firstElementChild;
  for (const id of ids) {
    const child = element(id);
    place(parent, child, at);
    at = child.nextElementSibling;
  }
}
