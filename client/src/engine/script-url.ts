/**
 * Addresses of workers, as pages take them that accept no plain text in their place (Trusted Types).
 * https://www.w3.org/TR/trusted-types/
 */
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
 * kernelzoo trusts no other. A page has one policy of a name, so that all files of the SDK share it.
 */
export function scriptUrl(url: string): string {
  const scope = globalThis as Scope;
  scope.kernelzoo ??= scope.trustedTypes?.createPolicy("kernelzoo", {
    createScriptURL: (given) => (given.startsWith("blob:") ? given : ""),
  });
  return scope.kernelzoo?.createScriptURL(url) ?? url;
}
