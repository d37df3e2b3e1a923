// The stream of a page: server-sent events read by fetch. The browser's own EventSource ends for ever on one 503, 204
// or HTML answer, which is what a proxy says while the server starts again; this reader ends only on "gone".

/** @typedef {{event: string, data: string, id: string | null}} Frame */
/** @typedef {"connecting" | "live" | "waiting" | "paused" | "stopped"} State */
/** `apply` answers a cursor when it took the whole page anew: the stream then goes on from there.
 * @typedef {{url: string, at: string, apply: (frame: Frame) => Promise<string | void>,
 *             tell: (state: State, about: {tries?: number, status?: number, date?: string | null}) => void}} Options */

const SILENT_MS = 25_000; // The server says something every 10 to 15 s; a line that is silent for longer is dead.
const WAIT_MS_MIN = 250;
const WAIT_MS_MAX = 8_000;
const FRAME_CHARS_MAX = 1 << 20; // No frame is near it: what is, is no stream of ours.
const GONE = [401, 404, 410];

/** One frame's text, without its blank line, or null for a comment. @param {string} text @returns {Frame | null} */
export function frameOf(text) {
  /** @type {Frame} */
  const frame = { event: "message", data: "", id: null };
  const data = [];
  for (const line of text.split("\n")) {
    const [, field, value] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    else if (field === "event") frame.event = value;
    else if (field === "id") frame.id = value;
  }
  frame.data = data.join("\n");
  return data.length ? frame : null;
}

/** How long to wait before try `n` (0, 1, 2 …), in milliseconds; `random` is from 0 to 1. */
export function waitMs(/** @type {number} */ n, /** @type {number} */ random) {
  return Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** n) * (0.5 + random / 2);
}

/** How far a clock that said `date` is ahead of one that says `now`, in milliseconds. A date has whole seconds, and is up
 * to three old when it arrives: what is less is no difference. @param {string} date @param {number} now */
export function ahead(date, now) {
  const ms = Date.parse(date) - now;
  return ms > -3_000 && ms < 1_000 ? 0 : ms + 1_000;
}

export class Reader {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.at = options.at; // The cursor: moves only after what came before it was applied.
    this.running = false;
    this.stopped = false;
    this.tries = 0;
    this.abort = new AbortController();
    this.wake = () => {};
  }

  /** Read until `pause` or until the server says that there is nothing to read any more. */
  async start() {
    if (this.running || this.stopped) return;
    this.running = true;
    const abort = (this.abort = new AbortController());
    while (!abort.signal.aborted) {
      this.options.tell("connecting", { tries: this.tries });
      try {
        if (await this.read(abort.signal)) continue;
      } catch (error) {
        if (!abort.signal.aborted) console.debug("turnlog: the stream broke", error);
      }
      if (abort.signal.aborted) return;
      this.options.tell("waiting", { tries: ++this.tries });
      await new Promise((done) => {
        this.wake = () => done(undefined);
        setTimeout(done, waitMs(this.tries - 1, Math.random()));
      });
    }
  }

  /** Let go of the connection; `start` goes on from the cursor. */
  pause() {
    if (this.stopped || !this.running) return;
    this.running = false;
    this.abort.abort();
    this.wake();
    this.options.tell("paused", {});
  }

  /** Try again now, if it is waiting. */
  retry() {
    this.wake();
  }

  /** Read one connection to its end; true when the next one shall follow at once. @param {AbortSignal} paused */
  async read(paused) {
    const line = new AbortController();
    const end = () => line.abort();
    let watchdog = setTimeout(end, SILENT_MS);
    paused.addEventListener("abort", end);
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": this.at };
      const answer = await fetch(this.options.url, { headers, cache: "no-store", signal: line.signal });
      if (GONE.includes(answer.status)) return this.stop(answer.status);
      const type = answer.headers.get("content-type") ?? "";
      const streams = answer.ok && type.startsWith("text/event-stream");
      if (!streams || !answer.body) throw new Error(`${answer.status} ${type}`);
      this.options.tell("live", { date: answer.headers.get("date") });
      const chunks = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let got = await chunks.read(); !got.done; got = await chunks.read()) {
        clearTimeout(watchdog);
        watchdog = setTimeout(end, SILENT_MS);
        const texts = (rest + got.value).split("\n\n");
        rest = texts.pop() ?? "";
        if (rest.length > FRAME_CHARS_MAX) throw new Error("a frame without end");
        for (const text of texts) if (await this.take(text, line.signal)) return true;
      }
      return false;
    } finally {
      clearTimeout(watchdog);
      paused.removeEventListener("abort", end);
      line.abort(); // Whatever ended the reading also ends the connection.
    }
  }

  /** @param {string} text @param {AbortSignal} signal */
  async take(text, signal) {
    const frame = frameOf(text);
    signal.throwIfAborted(); // What came after a pause is read again after it.
    const anew = frame && (await this.options.apply(frame));
    this.at = anew || frame?.id || this.at;
    if (frame || text.startsWith(":")) this.tries = 0;
    return Boolean(anew);
  }

  /** @param {number} status */
  stop(status) {
    this.stopped = true;
    this.abort.abort();
    this.options.tell("stopped", { status });
    return false;
  }
}
