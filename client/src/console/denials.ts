/** Shows which kernels of a key its class is never served, and lets the operator decide it. */
import { byId, element } from "../page/elements.js";
import { ago } from "../page/text.js";
import type { Decision, Key, Version } from "../wire/types.js";
import { keyForm } from "./operator.js";
import { type Cell, type Column, code, empty, table } from "./pieces.js";
import { operatorKey, put } from "./request.js";

/** The operator is about to do this to an artifact on a class. */
interface Deed {
  readonly verb: "Deny" | "Allow" | "Roll back";
  readonly denied: boolean;
  readonly artifact: string;
  readonly deviceClass: string;
  readonly means: string;
  readonly result: string;
}

const DENIED =
  "It is not served or lent to this class any more. Where it was live, an aggregate worker puts " +
  "the version before it in its place, within seconds.";

export const deny = ({ device_class }: Key, artifact: string): HTMLElement =>
  button({
    verb: "Deny",
    denied: true,
    artifact,
    deviceClass: device_class,
    means: "This class will never be served or lent this kernel, until you allow it.",
    result: DENIED,
  });

const allow = ({ device_class }: Key, artifact: string): HTMLElement =>
  button({
    verb: "Allow",
    denied: false,
    artifact,
    deviceClass: device_class,
    means: "This class is lent it again, and served it if it wins, whatever the crowd says of it.",
    result: "Agents of this class measure it again, and it is served if it wins.",
  });

/** Nothing for who is not the operator. */
export function rollBack({ device_class }: Key, live: Version): readonly HTMLElement[] {
  if (operatorKey() === "") return [];
  const deed: Deed = {
    verb: "Roll back",
    denied: true,
    artifact: live.artifact,
    deviceClass: device_class,
    means:
      `Version ${live.version} is denied to this class, and the latest version before it that ` +
      "pages got and that is not denied is served again, else the default kernel.",
    result: DENIED,
  };
  return [element("p", "below", button(deed))];
}

/** A column that only the operator sees. */
export const operated = <Row>(cell: (row: Row) => Cell): readonly Column<Row>[] =>
  operatorKey() === "" ? [] : [{ title: "Operator", cell }];

export function decisions(key: Key): readonly HTMLElement[] {
  const shown =
    key.decisions.length === 0
      ? empty("No kernel of this key is denied to this class.")
      : table("Decisions, the latest first", columns(key), key.decisions);
  // A class that is kept back asks for the key above.
  return operatorKey() === "" && key.shown ? [shown, forTheOperator()] : [shown];
}

function columns(key: Key): readonly Column<Decision>[] {
  return [
    { title: "Decision", cell: ({ denied }) => (denied ? "denied" : "allowed") },
    { title: "By", cell: ({ operated }) => (operated ? "operator" : "crowd") },
    { title: "Failed at", cell: ({ stage }) => stage || "–" },
    { title: "Evidence", cell: ({ evidence }) => evidence },
    { title: "Kernel", cell: ({ candidates }) => code(candidates.map(brief).join(" ")) },
    { title: "Artifact", cell: ({ artifact }) => code(brief(artifact)) },
    { title: "When", numeric: true, cell: ({ decided_at }) => ago(decided_at, Date.now()) },
    ...operated<Decision>(({ denied, artifact }) =>
      denied ? allow(key, artifact) : deny(key, artifact),
    ),
  ];
}

const brief = (id: string): string => id.slice(0, 8);

function forTheOperator(): HTMLElement {
  const summary = element("summary", "", "Deny, allow or roll back");
  const details = element("details", "", summary, keyForm("Use the key"));
  details.id = "for-the-operator";
  return details;
}

function button(deed: Deed): HTMLElement {
  const button = element("button", deed.denied ? "plain danger" : "plain", `${deed.verb}…`);
  button.type = "button";
  button.addEventListener("click", () => confirm(deed));
  return button;
}

/** Asks for a reason, does it, and says what came of it. It goes with the view that it is of. */
function confirm(deed: Deed): void {
  const dialog = element("dialog", "card");
  dialog.ariaLabel = `${deed.verb} a kernel`;
  const finish = (): void => {
    dialog.close();
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  dialog.append(question(deed, dialog, finish));
  dialog.addEventListener("close", () => dialog.remove());
  byId("view").append(dialog);
  dialog.showModal();
}

function question(deed: Deed, dialog: HTMLDialogElement, finish: () => void): HTMLFormElement {
  const reason = element("input", "");
  reason.id = "reason";
  reason.required = true;
  reason.maxLength = 500;
  reason.value = deed.verb === "Roll back" ? "rolled back by the operator" : "by the operator";
  const label = element("label", "", "Reason, which anyone can read");
  label.htmlFor = reason.id;
  const problem = element("div", "");
  problem.setAttribute("role", "alert");
  const yes = element("button", "", deed.verb);
  const no = element("button", "plain", "Cancel");
  no.type = "button";
  no.addEventListener("click", () => dialog.close());
  const form = element(
    "form",
    "",
    element("h2", "", `${deed.verb} `, code(brief(deed.artifact)), "?"),
    element("p", "", `${deed.means} Class: `, code(deed.deviceClass)),
    element("div", "field wide", label, reason),
    problem,
    element("div", "fields", yes, no),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    const trouble = await done(deed, reason.value.trim());
    yes.disabled = false;
    if (trouble === "") dialog.replaceChildren(outcome(deed, finish));
    else problem.replaceChildren(element("p", "notice bad", trouble));
  });
  return form;
}

/** Carries a deed out, and resolves to what went wrong, or ''. */
async function done({ artifact, deviceClass, denied }: Deed, reason: string): Promise<string> {
  const body = { artifact, device_class: deviceClass, denied, reason };
  const answer = await put<Decision>("/v1/denied", body);
  if (answer.kind === "ok") return "";
  return answer.kind === "empty" ? "The gateway answered nothing." : `Not done: ${answer.detail}`;
}

function outcome(deed: Deed, finish: () => void): HTMLElement {
  const close = element("button", "", "Close");
  close.type = "button";
  close.addEventListener("click", finish);
  const said = `The artifact is ${deed.denied ? "denied to" : "allowed on"} this class. ${deed.result}`;
  const text = element("p", "", said);
  text.setAttribute("role", "status");
  return element("div", "", element("h2", "", "Done"), text, close);
}
