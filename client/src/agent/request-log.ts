/** The log of requests that the agent page shows: each exactly as it went out. */
import { byId, element, setText } from "../page/elements.js";
import { count, kilobytes } from "../page/text.js";

/** Requests of this page, exactly as they went out. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  /** The JSON text that was sent. */
  readonly body: string;
}

/** The last requests, newest first, with the number and the size of all. */
export interface SentLog {
  readonly requests: readonly (SentRequest & { readonly number: number; readonly at: Date })[];
  readonly count: number;
  readonly bytes: number;
}

export const NOTHING_SENT: SentLog = { requests: [], count: 0, bytes: 0 };

/** A report holds up to 20 kB. */
const KEPT = 50;

export function withSent(log: SentLog, request: SentRequest, at: Date): SentLog {
  const count = log.count + 1;
  return {
    requests: [{ ...request, number: count, at }, ...log.requests].slice(0, KEPT),
    count,
    bytes: log.bytes + new TextEncoder().encode(request.body).length,
  };
}

/** Says what a request is for, in a visitor's words. */
export function purpose({ path }: Pick<SentRequest, "path">): string {
  if (path === "/v1/sessions") return "This device's profile";
  if (path === "/v1/leases") return "Asking for work";
  if (path === "/v1/ballots") return "A ballot";
  if (path === "/v1/failures") return "A kernel that did not compile here";
  return path.endsWith("/measurements") ? "Timings and sampled numbers" : path;
}

const clock = new Intl.DateTimeFormat("en", { timeStyle: "medium", hour12: false });

const readable = (body: string): string => JSON.stringify(JSON.parse(body), null, 2);

/** A button that copies exactly what was sent. */
function copyButton(body: string): HTMLButtonElement {
  const button = element("button", "plain", "Copy");
  button.type = "button";
  button.addEventListener("click", () => {
    const copied =
      navigator.clipboard?.writeText(body) ?? Promise.reject(new Error("no clipboard"));
    copied.then(
      () => {
        button.textContent = "Copied";
      },
      () => {
        button.textContent = "Select the text to copy it";
      },
    );
  });
  return button;
}

function entry(request: SentLog["requests"][number]): HTMLElement {
  const { method, path, body, at, number } = request;
  const title = element("b", "", purpose(request));
  const size = `${clock.format(at)} · ${kilobytes(body.length)}`;
  const summary = element("summary", "", title, " ", element("span", "quiet", size));
  const details = element("details", "sent", summary);
  details.dataset.number = String(number);
  // Filled when the visitor opens it, as most are never opened.
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const text = element("pre", "payload", readable(body));
    text.tabIndex = 0;
    details.append(element("p", "quiet", `${method} ${path}`), text, copyButton(body));
  });
  return details;
}

/** Adds what is new and drops what is forgotten, so that what a reader has opened stays open. */
export function renderSent(log: SentLog): void {
  const list = byId("sent");
  const shown = Number((list.firstElementChild as HTMLElement | null)?.dataset.number ?? 0);
  const fresh = log.requests.filter(({ number }) => number > shown);
  list.prepend(...fresh.map(entry));
  while (list.childElementCount > log.requests.length) list.lastElementChild?.remove();
  const total = `${count(log.count, "request")}, ${kilobytes(log.bytes)} in all`;
  setText("sent-total", log.count === 0 ? "Nothing yet." : `${total}; the newest first.`);
}

/** Shows what the first request will hold. */
export function renderProfile(body: string): void {
  setText("profile", readable(body));
  // It scrolls, so the keyboard must reach it.
  byId("profile").tabIndex = 0;
}
