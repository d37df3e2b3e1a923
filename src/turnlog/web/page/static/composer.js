// What a person sends: messages, and the small forms of a turn (stop, retry). Sent by fetch, so that the page stays as
// it is; nothing typed is lost, and nothing is sent twice: a key stays the same until the server has acknowledged it.

const ARRIVED = "An earlier version of this message had already arrived. Send again to add this one.";

/** A new submission's key. `crypto.randomUUID` is missing on plain HTTP from another machine. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Send a form; answers what went wrong, in words, or null. @param {HTMLFormElement} form
 * @returns {Promise<{text: string, type: string} | null>} */
export async function send(form) {
  const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    if (answer.ok) return null;
    const problem = (answer.headers.get("content-type") ?? "").includes("json") ? await answer.json() : {};
    const text = problem.detail || problem.title || `The server answered ${answer.status}.`;
    return { text, type: problem.type ?? "" };
  } catch {
    return { text: "The server cannot be reached.", type: "" };
  }
}

/** @param {HTMLElement} where @param {string} text */
function say(where, text) {
  where.textContent = text;
  where.hidden = !text;
}

/** Wire the composer of a thread; `sent` is called after each acknowledgement.
 * @param {HTMLFormElement} form @param {() => void} sent */
export function compose(form, sent) {
  const field = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("content"));
  const key = /** @type {HTMLInputElement} */ (form.elements.namedItem("key"));
  const error = /** @type {HTMLElement} */ (form.querySelector("[data-error]"));
  const native = form.hasAttribute("data-new");
  const place = `turnlog ${form.action}`;
  const remember = () => {
    if (field.value) sessionStorage.setItem(place, JSON.stringify([key.value, field.value]));
    else sessionStorage.removeItem(place);
  };
  const [oldKey, oldText] = JSON.parse(sessionStorage.getItem(place) ?? "[]");
  // Some browsers bring the text back by themselves, but not the key it was sent with.
  if (oldText && (!field.value || field.value === oldText)) [key.value, field.value] = [oldKey, oldText];
  let sending = false;

  field.addEventListener("input", remember);
  field.addEventListener("keydown", (event) => {
    // On a phone Enter makes a line, as everywhere there; while an input method composes, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    if (sending || !field.value.trim()) return event.preventDefault();
    sending = true;
    if (native) return sessionStorage.removeItem(place); // The browser sends it and shows the new thread.
    event.preventDefault();
    form.setAttribute("aria-busy", "true");
    say(error, "");
    const text = field.value;
    const wrong = await send(form);
    sending = false;
    form.removeAttribute("aria-busy");
    if (!wrong || wrong.type.endsWith("key-conflict")) key.value = newKey();
    if (!wrong && field.value.startsWith(text)) field.value = field.value.slice(text.length);
    remember();
    if (!wrong) sent();
    else if (wrong.type.endsWith("key-conflict")) say(error, ARRIVED);
    else say(error, `Not sent: ${wrong.text} Your text is kept; send it again.`);
  });
  addEventListener("pageshow", () => (sending = false));
}

/** Send the small forms by fetch. @param {(text: string) => void} tell shows what went wrong, "" when nothing did */
export function sendForms(tell) {
  document.addEventListener("submit", async (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (!form.hasAttribute("data-post")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true");
    const wrong = await send(form);
    form.removeAttribute("aria-busy");
    tell(wrong ? `That did not work: ${wrong.text}` : "");
  });
}
