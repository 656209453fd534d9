/** Starts workers from texts, also where a page accepts no plain text as an address. */

/** https://www.w3.org/TR/trusted-types/ */
interface Policy {
  createScriptURL(url: string): string;
}

interface Scope {
  readonly trustedTypes?: {
    createPolicy(name: string, rules: Policy): Policy;
  };
  kernelzoo?: Policy | undefined;
}

/**
 * The address of a worker of the SDK, which is a blob: what a page's directive `trusted-types` calls
 * kernelzoo trusts no other. A page has one policy of a name, also where it loads the SDK twice.
 */
export function scriptUrl(url: string): string {
  const scope = globalThis as Scope;
  scope.kernelzoo ??= scope.trustedTypes?.createPolicy("kernelzoo", {
    createScriptURL: (given) => (given.startsWith("blob:") ? given : ""),
  });
  return scope.kernelzoo?.createScriptURL(url) ?? url;
}

/** A worker from a blob, which is of the page's own origin and inherits its isolation and its policy. */
export function workerOf(text: string, name: string): Worker {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker: Worker = new Worker(scriptUrl(url), { name });
  const terminate = worker.terminate.bind(worker);
  worker.terminate = () => {
    terminate();
    // Its threads are loaded from the same address.
    URL.revokeObjectURL(url);
  };
  return worker;
}
