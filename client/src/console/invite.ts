/** "Tune this device": the agent page for this browser, and a QR code for a phone. */
import { encode } from "uqr";
import { element, svg } from "../page/elements.js";
import { card, code, link } from "./pieces.js";

const QUIET_ZONE = 4;

/** Returns whether a name means the machine itself, so that another device cannot reach it. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" ||
  host.endsWith(".localhost") ||
  host === "[::1]" ||
  /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);

export function inviteView(): readonly HTMLElement[] {
  return [here(), phone()];
}

function here(): HTMLElement {
  const start = link("/agent", "Open the agent page");
  start.className = "button";
  return card(
    "This device",
    element(
      "p",
      "",
      "The agent page asks for your consent, measures kernels while you look at it, and votes for ",
      "the fastest. It stops when you close it.",
    ),
    start,
  );
}

function phone(): HTMLElement {
  const input = element("input", "");
  input.type = "url";
  input.id = "phone-address";
  input.spellcheck = false;
  input.value = `${location.origin}/agent`;
  const label = element("label", "", "Address that the phone can reach");
  label.htmlFor = input.id;
  const result = element("div", "invitation");
  result.setAttribute("role", "status");
  const draw = (): void => result.replaceChildren(...invitation(input.value.trim()));
  input.addEventListener("input", draw);
  draw();
  return card("A phone", element("div", "field wide", label, input), result);
}

function invitation(text: string): readonly HTMLElement[] {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return [notice("This is no address. Write it as in http://192.168.0.10:8787/agent.")];
  }
  if (isLoopback(url.hostname)) return [loopbackNotice(url)];
  const pieces = [picture(url.href), element("p", "", "Scan it, or type ", code(url.href), ".")];
  if (url.protocol === "http:") {
    pieces.push(
      notice(
        "Over http browsers give a page a coarse clock and no WebGPU: timing takes longer, and the " +
          "GPU is left out. Over https both are there.",
      ),
    );
  }
  return pieces;
}

function loopbackNotice(url: URL): HTMLElement {
  return notice(
    `${url.hostname} means the device itself, so a phone would look for the zoo on the phone. ` +
      "Start the stack with ",
    code("kernelzoo up --host 0.0.0.0"),
    ` and write this machine's address in your network above, as in http://192.168.0.10:${url.port || "80"}/agent.`,
  );
}

const notice = (...children: readonly (Node | string)[]): HTMLElement =>
  element("p", "notice", ...children);

/** Dark on light in both colour schemes: many readers want no other. */
function picture(text: string): HTMLElement {
  const { data, size } = encode(text, { ecc: "M", border: QUIET_ZONE });
  const modules = data.flatMap((row, y) =>
    row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : [])),
  );
  const drawing = svg("svg", {
    viewBox: `0 0 ${size} ${size}`,
    role: "img",
    "aria-label": `QR code of ${text}`,
    "shape-rendering": "crispEdges",
  });
  drawing.append(svg("path", { d: modules.join("") }));
  const frame = element("div", "qr");
  frame.append(drawing);
  return frame;
}
