/**
 * Checks custom resources against the schemas of their operators: a JSON array of manifests on
 * standard input, a line for each complaint on standard output.
 */
import { readFileSync } from "node:fs";
import * as gateway from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import * as keda from "@kubernetes-models/keda/keda.sh/v1alpha1";
import * as prometheus from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const groups = {
  "gateway.networking.k8s.io/v1": gateway,
  "keda.sh/v1alpha1": keda,
  "monitoring.coreos.com/v1": prometheus,
};

function complaint(manifest) {
  const kind = groups[manifest.apiVersion]?.[manifest.kind];
  if (kind === undefined) {
    return "no schema is known for it";
  }
  try {
    new kind(manifest).validate();
    return undefined;
  } catch (error) {
    return error.message;
  }
}

for (const manifest of JSON.parse(readFileSync(0, "utf8"))) {
  const wrong = complaint(manifest);
  if (wrong !== undefined) {
    console.log(`${manifest.kind} ${manifest.metadata.name}: ${wrong}`);
  }
}
