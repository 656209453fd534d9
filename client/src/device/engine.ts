/** Browser engine, recorded beside a measurement and never part of the device id. */
export interface Engine {
  readonly name: string;
  readonly version: string;
}

interface Brand {
  readonly brand: string;
  readonly version: string;
}

/** The part of User-Agent Client Hints that is read here; TypeScript's DOM library lacks it. */
export interface UserAgentData {
  readonly brands: readonly Brand[];
  getHighEntropyValues(hints: readonly string[]): Promise<{
    readonly architecture?: string;
    readonly bitness?: string;
  }>;
}

/** Absent in Firefox and Safari, and in pages on plain http. */
export function userAgentData(): UserAgentData | undefined {
  return (navigator as { readonly userAgentData?: UserAgentData }).userAgentData;
}

/** In this order, since Chromium's text names Safari too. */
const TOKENS = [
  { name: "Firefox", pattern: /Firefox\/(\d+)/ },
  { name: "Chromium", pattern: /Chrom(?:e|ium)\/(\d+)/ },
  { name: "Safari", pattern: /Version\/([\d.]+).*Safari/ },
  { name: "WebKit", pattern: /AppleWebKit\/([\d.]+)/ },
] as const;

/** Engine from a user-agent text, for the record alone: nothing depends on it. */
export function engineFromText(text: string): Engine {
  for (const { name, pattern } of TOKENS) {
    const version = pattern.exec(text)?.[1];
    if (version !== undefined) return { name, version };
  }
  return { name: "", version: "" };
}

export function readEngine(): Engine {
  const chromium = userAgentData()?.brands.find(({ brand }) => brand === "Chromium");
  if (chromium !== undefined) return { name: chromium.brand, version: chromium.version };
  return engineFromText(navigator.userAgent);
}
