// A thread's page: applies what the stream brings, and wires what a person does. Without it, it reads and works too.

import { compose, sendForms } from "./composer.js";
import { apply, morph, parse } from "./morph.js";
import { ahead, Reader } from "./reader.js";

const NEAR_PX = 80; // So near to the end counts as at the end.
const LIST_MS = 1_000;
const OPEN = ["submitted", "worker_started", "assistant_started"];
const WORDS = /** @type {Record<string, string>} */ ({
  submitted: "Your message is waiting.",
  worker_started: "The assistant is working.",
  assistant_started: "The assistant is answering.",
  completed: "Answer complete.",
  interrupted: "The answer was interrupted.",
});

const $ = (/** @type {string} */ selector, root = /** @type {ParentNode} */ (document)) =>
  /** @type {HTMLElement | null} */ (root.querySelector(selector));
const say = (/** @type {string} */ id, /** @type {string} */ text) => {
  const where = $(`#${id}`);
  if (where && where.textContent !== text) [where.textContent, where.hidden] = [text, !text];
};

const thread = $("#thread[data-thread]");
const composer = /** @type {HTMLFormElement | null} */ ($("form#composer"));

// --- staying at the end ---------------------------------------------------------------------------------------

const page = document.documentElement;
let atEnd = false;
let lastY = 0;

const near = (px = NEAR_PX) => page.scrollHeight - innerHeight - scrollY < px;

function follow(/** @type {boolean} */ end = atEnd) {
  atEnd = end;
  // At the end the page holds on to its end, elsewhere the browser holds on to what is read.
  page.style.overflowAnchor = end ? "none" : "";
  $("#newest")?.toggleAttribute("hidden", end);
  if (end) scrollTo({ top: page.scrollHeight, behavior: "instant" });
  lastY = scrollY;
}

function watchScrolling() {
  addEventListener("scroll", () => {
    // Text that has grown since makes no way to the end; only who goes up leaves it.
    if (near() !== atEnd && (!atEnd || scrollY < lastY)) follow(!atEnd);
    lastY = scrollY;
  });
  $("#newest")?.addEventListener("click", () => follow(true));
  new ResizeObserver(() => follow()).observe(document.body); // Asked after layout: nothing has to lay out for it.
  follow(!location.hash || near());
}

// --- the stream -----------------------------------------------------------------------------------------------

const states = /** @type {Map<string, string>} */ (new Map());
const byHand = new WeakSet(); // Traces that a person has used: nobody else opens or closes them after that.

/** See what became of the turns: say it, fold the trace of one that ended, show what the composer can do. */
function look(/** @type {boolean} */ aloud) {
  let busy = false;
  for (const turn of thread?.querySelectorAll(".turn[data-state]") ?? []) {
    const state = turn.getAttribute("data-state") ?? "";
    const open = OPEN.includes(state);
    busy ||= open;
    if (states.get(turn.id) === state) continue;
    if (aloud) say("status", WORDS[state] ?? "");
    states.set(turn.id, state);
    const trace = /** @type {HTMLDetailsElement | null} */ ($("details.trace", turn));
    if (trace && aloud && !byHand.has(trace) && (open || !isRead(trace))) trace.open = open;
  }
  // The rows of a trace that settled are asked for again where somebody has it open.
  for (const rows of document.querySelectorAll(".trace[open][data-src] > .steps:not([data-loaded])")) {
    void loadTrace(/** @type {HTMLElement} */ (rows.parentElement));
  }
  composer?.toggleAttribute("data-busy", busy);
}

/** Whether somebody who has scrolled up has it before them. @param {Element} trace */
function isRead(trace) {
  const { top, bottom } = trace.getBoundingClientRect();
  return !atEnd && bottom > 0 && top < innerHeight;
}

/** A turn that leaves the window joins the earlier ones, where a person has them on the page.
 * @param {[string, string, any]} operation */
function keepEarlier([name, parent, ids]) {
  const earlier = $("#earlier");
  if (name !== "keep" || parent !== "turns" || !earlier?.firstElementChild) return;
  let oldest = true;
  for (const turn of [...($("#turns")?.children ?? [])]) {
    if (ids.includes(turn.id)) oldest = false;
    else if (turn.matches(".taken") ? recount(turn) : oldest) earlier.append(turn);
  }
}

/** Let a line of turns that were taken back tell what it holds: those that stay on the page are in another line by now,
 * which may stand before it. Answers whether there are any. @param {Element} line */
function recount(line) {
  const count = line.children.length - 1;
  const told = $("summary", line);
  if (told) told.textContent = `${count} turn${count === 1 ? "" : "s"} taken back`;
  return count > 0;
}

/** Take the page anew and make this one's `part` like its own; answers its cursor. @param {HTMLElement} part */
async function refetch(part) {
  const answer = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" } });
  const fresh = $(`#${part.id}`, parse(await answer.text()));
  if (!answer.ok || !fresh) throw new Error(`the page answered ${answer.status}`);
  morph(part, fresh, true);
  tick();
  return fresh.dataset.at ?? "";
}

/** @param {import("./reader.js").Frame} frame */
async function take(frame) {
  if (!thread) return;
  const focused = document.activeElement;
  const turn = focused?.closest(".turn");
  let anew;
  if (frame.event === "reset") anew = await refetch(thread);
  else if (frame.event === "frag") {
    try {
      for (const operation of JSON.parse(frame.data)) {
        keepEarlier(operation);
        apply(operation);
      }
    } catch (error) {
      console.warn("turnlog: the page is taken anew:", error);
      anew = await refetch(thread);
    }
  } else return;
  thread.dataset.at = anew ?? frame.id ?? thread.dataset.at;
  look(true);
  tick();
  // What was in use is gone: who used it by keys goes on from the turn it was in.
  const line = turn?.closest(".taken");
  const next = line ? "summary" : ".notice, .sum";
  if (turn && !focused?.checkVisibility()) focus($(next, line ?? turn) ?? $("#content"));
  return anew;
}

/** Go on from here. @param {HTMLElement | null} where */
function focus(where) {
  where?.focus({ preventScroll: true });
  if (!where || document.activeElement === where) return;
  where.tabIndex = -1;
  where.focus({ preventScroll: true });
}

let aheadMs = 0; // How far the server's clock is ahead of this one.

/** @param {import("./reader.js").State} state @param {{tries?: number, status?: number, date?: string | null}} about */
function tell(state, about) {
  page.dataset.stream = state;
  if (about.date) aheadMs = ahead(about.date, Date.now());
  if (state === "live") {
    say("banner", "");
    dispatchEvent(new Event("reached"));
  }
  if (state === "waiting") {
    const why = navigator.onLine ? "The server does not answer." : "You are offline.";
    say("banner", `${why} This page shows what had arrived, and connects again by itself.`);
  }
  if (state === "stopped") {
    const ended = about.status === 401;
    say("banner", ended ? "Access has ended: open the page with its token." : "This thread is not here any more.");
  }
}

let due = 0;
let listed = Promise.resolve(""); // One after the other: the last one tells how it is.

/** The list of threads is taken anew when one has changed, at most once a second. @param {HTMLElement} list */
async function takeList(list) {
  const now = () => {
    due = 0;
    listed = listed.then(() => refetch(list)).catch(() => ""); // Then the stream breaks too, and begins with a reset.
  };
  due ||= setTimeout(now, LIST_MS);
}

function stream() {
  const list = $("#list");
  const how = thread?.dataset.stream
    ? { url: thread.dataset.stream, at: thread.dataset.at ?? "", apply: take }
    : list && { url: "/api/changes", at: "", apply: () => takeList(list) };
  if (!how) return;
  const reader = new Reader({ ...how, tell });
  const see = () => (document.hidden ? reader.pause() : void reader.start());
  // A browser has six connections for a server: the tabs that nobody sees let go of theirs.
  document.addEventListener("visibilitychange", see);
  addEventListener("pagehide", () => reader.pause());
  addEventListener("pageshow", see);
  addEventListener("online", () => reader.retry());
  see();
  return reader;
}

// --- what a person does ---------------------------------------------------------------------------------------

/** Load the rows of a settled turn's trace when it is opened. @param {HTMLElement} trace */
async function loadTrace(trace) {
  const rows = $(".steps[data-keep]", trace);
  if (!trace.dataset.src || !rows) return;
  trace.setAttribute("aria-busy", "true");
  rows.dataset.loaded = ""; // The stream takes it away when there are newer ones.
  try {
    const answer = await fetch(trace.dataset.src, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const fresh = /** @type {HTMLElement} */ (rows.cloneNode(false));
    fresh.append(parse(await answer.text()));
    morph(rows, fresh, true);
  } catch {
    if (!rows.firstElementChild) rows.textContent = "The steps could not be loaded. Close and open them to try again.";
  }
  trace.removeAttribute("aria-busy");
}

/** Put the earlier turns above, and the link to still earlier ones. @param {HTMLAnchorElement} link */
async function loadEarlier(link) {
  const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
  const fresh = parse(await answer.text());
  const turns = [...($("#turns", fresh)?.children ?? [])];
  const earlier = $("#earlier");
  if (!answer.ok || !earlier || !turns.length) throw new Error(`the page answered ${answer.status}`);
  const first = $("#earlier > :not(nav)") ?? $("#turns > *");
  $("#earlier > nav")?.remove();
  const next = $("#earlier-link", fresh);
  next?.removeAttribute("id"); // The document's own one goes on to be the server's.
  earlier.prepend(...(next?.firstElementChild ? [next] : []), ...turns);
  first?.scrollIntoView({ block: "start", behavior: "instant" });
  focus(first);
}

/** Show the one copy button of all listings at the one that is pointed at or focused. @param {Event} event */
function offerCopy(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const listing = target.id === "copy" ? null : target.closest("pre.hl");
  if (!listing) return;
  const button = $("#copy") ?? document.body.appendChild(copyButton());
  const box = listing.getBoundingClientRect();
  button.style.top = `${box.top + scrollY + 6}px`;
  button.style.left = `${box.right + scrollX - 6}px`;
  copied.set(button, listing);
}

const copied = /** @type {WeakMap<HTMLElement, Element>} */ (new WeakMap());

function copyButton() {
  const button = document.createElement("button");
  Object.assign(button, { id: "copy", type: "button", textContent: "Copy" });
  button.dataset.copy = "";
  return button;
}

/** @param {HTMLElement} button */
async function copy(button) {
  const what = copied.get(button) ?? (button.parentElement && $("[data-copyable]", button.parentElement));
  await navigator.clipboard.writeText(what?.textContent ?? "");
  say("status", "Copied.");
  button.dataset.done = "";
  setTimeout(() => delete button.dataset.done, 1_500);
}

function wire() {
  document.addEventListener("click", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const hit = (/** @type {string} */ selector) => /** @type {HTMLElement | null} */ (target.closest(selector));
    const trace = hit(".trace");
    if (trace) byHand.add(trace);
    // What a person opens stays before them: nothing goes to the end because of it.
    if (hit(".settings > summary, .taken > summary")) requestAnimationFrame(() => follow(near(1)));
    const button = hit("[data-copy]");
    if (button) void copy(button);
    const earlier = /** @type {HTMLAnchorElement | null} */ (hit("a[data-earlier]"));
    if (earlier && $("#earlier") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      loadEarlier(earlier).catch(() => location.assign(earlier.href));
    }
  });
  document.addEventListener(
    "toggle",
    (event) => {
      const trace = /** @type {HTMLDetailsElement} */ (event.target);
      if (trace.open && trace.matches("details.trace")) void loadTrace(trace);
    },
    true,
  );
  document.addEventListener("pointerover", offerCopy);
  document.addEventListener("focusin", offerCopy);
  sendForms();
}

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const shown = new WeakMap(); // The time that each <time> was written for.

/** Write what the browser knows better than the server: how long it has been, and the time where the person is. */
function tick() {
  for (const where of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-live]"))) {
    if (where instanceof HTMLTimeElement && shown.get(where) !== where.dateTime) {
      shown.set(where, where.dateTime);
      where.textContent = moment.format(new Date(where.dateTime));
    } else if (where.dataset.since) {
      const seconds = Math.max(0, Math.floor((Date.now() + aheadMs - Number(where.dataset.since) / 1_000) / 1_000));
      where.textContent = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} m ${seconds % 60} s`;
    }
  }
}

wire();
tick();
setInterval(tick, 1_000);
look(false);
if (thread?.dataset.stream) watchScrolling();
const reader = stream();
if (composer) {
  compose(composer, () => {
    follow(true);
    reader?.retry();
  });
}
for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-compose]"))) {
  compose(form, () => location.assign(form.dataset.go ?? "/"));
}
