/** The operator's key in the console, and what is kept back without it. */
import { element } from "../page/elements.js";
import { keepOperatorKey, operatorKey } from "./request.js";

/** The form for the operator's key; an empty one removes it. */
export function keyForm(action: string): HTMLFormElement {
  const input = element("input", "");
  input.type = "password";
  input.id = "operator-key";
  input.autocomplete = "off";
  input.value = operatorKey();
  const label = element("label", "", "Operator's key");
  label.htmlFor = input.id;
  const button = element("button", "plain", action);
  const form = element("form", "fields", element("div", "field", label, input), button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepOperatorKey(input.value.trim());
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
