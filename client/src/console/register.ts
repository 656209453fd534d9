/** A form that has a workload tuned: with the operator's key, which the tab keeps. */
import { element } from "../page/elements.js";
import type { Job } from "../wire/types.js";
import { code, field, input, link } from "./pieces.js";
import { keepOperatorKey, operatorKey, post } from "./request.js";
import { address } from "./route.js";

const TARGETS = ["wasm", "webgpu"] as const;

export function registerForm(): HTMLElement {
  const workload = input("register-workload", "text");
  workload.placeholder = "matmul:f32:m384k768n768";
  workload.required = true;
  workload.maxLength = 128;
  const target = element("select", "");
  target.id = "register-target";
  target.append(...TARGETS.map((target) => new Option(target, target)));
  const key = input("register-key", "password");
  key.required = true;
  key.value = operatorKey();
  const button = element("button", "", "Tune");
  const said = element("p", "said");
  said.setAttribute("role", "status");
  const form = element(
    "form",
    "fields",
    field("Workload", workload),
    field("Target", target),
    field("Operator's key", key),
    button,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepOperatorKey(key.value.trim());
    button.disabled = true;
    void register(workload.value.trim(), target.value).then((answer) => {
      button.disabled = false;
      said.replaceChildren(...answer);
    });
  });
  const details = element(
    "details",
    "",
    element("summary", "", "Have a workload tuned"),
    element(
      "p",
      "quiet",
      "A key names an operator, its type and its extents, as in ",
      code("matmul:f32:m384k768n768"),
      "; ",
      code("kernelzoo tune"),
      " writes it from a shape. The key of the operator is kept until this tab is closed.",
    ),
    form,
    said,
  );
  details.id = "register";
  return details;
}

async function register(workload: string, target: string): Promise<readonly (Node | string)[]> {
  const answer = await post<Job>("/v1/jobs", { workload, target });
  if (answer.kind !== "ok") {
    return [answer.kind === "empty" ? "The gateway gave no answer." : answer.detail];
  }
  const { job } = answer.value;
  return ["It is ", link(address("tuning", [String(job)]), `job ${job}`), "."];
}
