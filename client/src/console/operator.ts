/** The operator's key in the console, and what is kept back without it. */
import { element } from "../page/elements.js";
import { field, input } from "./pieces.js";
import { keepOperatorKey, operatorKey } from "./request.js";

/** The form for the operator's key; an empty one removes it. */
export function keyForm(action: string): HTMLFormElement {
  const key = input("operator-key", "password");
  key.value = operatorKey();
  const button = element("button", "plain", action);
  const form = element("form", "fields", field("Operator's key", key), button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepOperatorKey(key.value.trim());
    dispatchEvent(new HashChangeEvent("hashchange"));
  });
  return form;
}

/**
 * The notice of a class that is not shown to strangers; `counted` says what there is, as in `12
 * candidates`.
 */
export function keptBack(identities: number, quorum: number, counted: string): HTMLElement {
  const who = identities === 1 ? "1 identity has" : `${identities} identities have`;
  return element(
    "div",
    "notice",
    element(
      "p",
      "",
      `${who} measured on this class, and ${counted}. Details are shown from ${quorum} on, so that `,
      "no single device can be told from them. The operator sees them with the key, ",
      "which this tab keeps until it is closed.",
    ),
    keyForm("Show"),
  );
}
