// What a person sends: messages, and the small forms of a turn (stop, retry). Sent by fetch, so that the page stays as
// it is; nothing typed is lost, and nothing is sent twice: a key stays the same until the server has acknowledged it.

const ARRIVED = "An earlier version of this message had already arrived. Send again to add this one.";
const GONE = "Not sent: this message was already edited or taken back. Send again to add yours as a new one.";

/** A new submission's key. `crypto.randomUUID` is missing on plain HTTP from another machine. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Send a form; answers what became of it: `wrong` says what went wrong, in words, and `again` whether the same may go
 * well later. @param {HTMLFormElement} form
 * @returns {Promise<{wrong?: string, again?: boolean, type?: string, thread?: string}>} */
export async function send(form) {
  const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    const told = (answer.headers.get("content-type") ?? "").includes("json") ? await answer.json() : {};
    if (answer.ok) return told;
    const wrong = told.detail || told.title || `The server answered ${answer.status}.`;
    return { wrong, again: answer.status >= 500, type: told.type };
  } catch {
    return { wrong: "The server cannot be reached.", again: true };
  }
}

/** How many bytes a text takes in the log, which keeps it as JSON, without its quotation marks. @param {string} text */
const bytesOf = (text) => new TextEncoder().encode(JSON.stringify(text)).length - 2;

/** @param {string} text */
function alert(text) {
  const shown = document.createElement("span");
  shown.role = "alert";
  shown.textContent = text;
  return shown;
}

/** @param {HTMLElement} where @param {string} text */
function say(where, text) {
  where.textContent = text;
  where.hidden = !text;
}

/** Wire a composer; `sent` is called after each acknowledgement.
 * @param {HTMLFormElement} form @param {() => void} sent */
export function compose(form, sent) {
  const field = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("content"));
  const key = /** @type {HTMLInputElement} */ (form.elements.namedItem("key"));
  const error = /** @type {HTMLElement} */ (form.querySelector("[data-error]"));
  const bytesMax = Number(form.dataset.bytesMax);
  const placeOf = (/** @type {string} */ name) => `turnlog ${name} ${form.action}`;
  let place = placeOf(form.dataset.compose ?? "");
  const remember = () => {
    if (field.value && field.value !== field.defaultValue) sessionStorage.setItem(place, JSON.stringify([key.value, field.value]));
    else sessionStorage.removeItem(place);
  };
  const [oldKey, oldText] = JSON.parse(sessionStorage.getItem(place) ?? "[]");
  // Some browsers bring the text back by themselves, but not the key it was sent with.
  if (oldText && [oldText, field.defaultValue].includes(field.value)) {
    [key.value, field.value] = [oldKey, oldText];
    form.closest("details")?.setAttribute("open", "");
  }
  let sending = false;
  let unreached = false; // Said of a server that may be back.

  field.addEventListener("input", () => (remember(), say(error, "")));
  addEventListener("reached", () => unreached && say(error, ""));
  field.addEventListener("keydown", (event) => {
    // On a phone Enter makes a line, as everywhere there; while an input method composes, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value;
    if (sending || !text.trim()) return;
    const bytes = bytesOf(text);
    if (bytes > bytesMax) {
      const over = Math.ceil((text.length * (bytes - bytesMax)) / bytes);
      return say(error, `Not sent: your message is too long, by about ${over.toLocaleString("en")} characters.`);
    }
    sending = true;
    form.setAttribute("aria-busy", "true");
    say(error, "");
    const { wrong, again, type, thread } = await send(form);
    sending = false;
    form.removeAttribute("aria-busy");
    unreached = Boolean(again);
    const arrived = type?.endsWith("key-conflict");
    const gone = type?.endsWith("turn-hidden");
    if (!wrong || arrived) key.value = newKey();
    const replacing = form.querySelector("[name=edit_of]");
    if (replacing && (arrived || gone)) {
      replacing.remove(); // What it was to replace is not there any more: it is a message of the thread.
      sessionStorage.removeItem(place);
      if (!sessionStorage.getItem(placeOf(""))) place = placeOf("");
    }
    if (!wrong && field.value.startsWith(text)) field.value = field.value.slice(text.length);
    remember();
    if (arrived) say(error, ARRIVED);
    else if (gone) say(error, GONE);
    else if (wrong) say(error, `Not sent: ${wrong} Your text is kept${again ? "; send it again." : "."}`);
    else if (form.hasAttribute("data-new")) location.assign(`/t/${thread}`);
    else {
      // To stop an answer is chosen for one message, not for all that follow.
      for (const choice of /** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll("[name=when_busy]"))) {
        choice.checked = choice.defaultChecked;
      }
      sent();
    }
  });
}

/** Send the small forms by fetch. What goes wrong is said beside the button, until it is used again. */
export function sendForms() {
  document.addEventListener("submit", async (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (!form.hasAttribute("data-post")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true");
    const { wrong } = await send(form);
    form.removeAttribute("aria-busy");
    form.querySelector("[role=alert]")?.remove();
    if (wrong) form.append(alert(`That did not work: ${wrong}`));
  });
}
