/** What is kept back from strangers, and how the operator sees it. */
import { element } from "../page/elements.js";
import { keepOperatorKey, operatorKey } from "./request.js";

/** `counted`: what is told all the same, as in `12 candidates`. */
export function keptBack(identities: number, quorum: number, counted: string): HTMLElement {
  const input = element("input", "");
  input.type = "password";
  input.id = "operator-key";
  input.autocomplete = "off";
  input.value = operatorKey();
  const label = element("label", "", "Operator's key");
  label.htmlFor = input.id;
  const button = element("button", "plain", "Show");
  const form = element("form", "fields", element("div", "field", label, input), button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepOperatorKey(input.value.trim());
    dispatchEvent(new HashChangeEvent("hashchange"));
  });
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
    form,
  );
}
