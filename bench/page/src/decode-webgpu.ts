/**
 * Language models on WebGPU: our decoder beside onnxruntime-web's, in turns, then ours without what
 * makes it fast. It reads `job.json` beside the page; `kernelzooDecoding.run()` answers what was
 * measured.
 */

import { openDevice } from "../../../client/src/backend/webgpu/device.js";
import { sentence } from "../../../client/src/engine/error.js";
import { now } from "../../../client/src/timing/clock.js";
import { chosenInDecoder } from "./decode/by-sum.js";
import { contest, OURS, openOurs, sameTokens } from "./decode/contest.js";
import { openPeer } from "./decode/generator.js";
import type {
  DecoderAnswer,
  DecoderRequest,
  DecodingAnswer,
  DecodingJob,
  Machine,
  Varied,
} from "./decode/request.js";
import { BareDecoder } from "./decode/variants.js";
import { bytesAt, relativeDifference } from "./models/network.js";
import { tuned } from "./models/tuned.js";
import { pageAnswer, releasesOf } from "./webgpu/page-answer.js";

const GPU: Machine = { backend: "webgpu", threads: 1 };
/** Tokens of ours that are fetched together. */
const INTERVALS = [16, 1];

/**
 * Kernels are tried in whole tokens and blocks for a quarter of the time in which they are tuned
 * alone.
 */
const SUM_SHARE = 4;

/** Peers that ran, with their releases. */
const peers = new Set<string>();

/** Tokens of a variant that makes everything anew for each call, which takes many times as long. */
const FEW_TOKENS = 16;
const MOST_ROUNDS = 3;

async function varied(
  bare: BareDecoder,
  { contexts, tokens }: DecoderRequest,
  { variants, rounds }: DecodingJob,
): Promise<readonly Varied[]> {
  const place = Math.max(...contexts);
  const samples = variants.map((): number[] => []);
  for (let round = 0; round <= Math.min(rounds, MOST_ROUNDS); round++) {
    for (const [i, variant] of variants.entries()) {
      const count = variant.reuse === "nothing" ? Math.min(FEW_TOKENS, tokens) : tokens;
      const ms = await bare.tokenMs(place, count, variant);
      if (round > 0) samples[i]?.push(ms);
    }
  }
  return variants.map((variant, i) => ({ ...variant, tokenMs: samples[i] ?? [] }));
}

async function measured(asked: DecoderRequest, job: DecodingJob): Promise<DecoderAnswer> {
  const failures: Record<string, string> = {};
  const differences: Record<string, number> = {};
  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | null> => {
    try {
      return await work();
    } catch (thrown) {
      failures[what] = sentence(thrown);
      return null;
    }
  };
  const device = await openDevice();
  const times = await tuned(device, asked, job.tuneMs);
  device.dispose();
  const decides = (): Promise<readonly string[]> => {
    return chosenInDecoder(asked, times, job.tuneMs / SUM_SHARE);
  };
  const bySum = Object.keys(times).length > 0 ? await attempt("sum", decides) : null;
  console.log(`${asked.name} is tuned at ${now().toFixed(0)} ms`);
  const right = new Float32Array<ArrayBuffer>(await bytesAt(asked.logits));
  const differs = (found: Float32Array<ArrayBuffer>): number =>
    relativeDifference({ logits: found }, { logits: right });

  // 1. Both engines on the golden prompt: their tokens, the peer's logits. It is timed as it is
  // shipped, with activations of 8 bits, and compared without.
  const ours = await attempt(OURS, () => openOurs(asked, GPU));
  const exact = await attempt("onnxruntime-web", () =>
    openPeer({ ...asked, onnx: asked.exact }, GPU),
  );
  const greedy = [];
  for (const engine of [ours, exact]) {
    if (engine === null) continue;
    const made = await attempt(engine.name, () => engine.generate(asked.prompt, asked.tokens, 16));
    if (made === null) continue;
    greedy.push(made.tokens);
    if (made.logits !== null) differences["onnxruntime-web"] = differs(made.logits);
  }

  // 2. Both in turns.
  console.log(`${asked.name} is compared at ${now().toFixed(0)} ms`);
  const same = asked.exact === asked.onnx;
  if (!same) await exact?.dispose();
  const peer = same ? exact : await attempt("onnxruntime-web", () => openPeer(asked, GPU));
  const engines = [ours, peer].filter((engine) => engine !== null);
  const decoded =
    (await attempt("contest", () => contest(engines, asked, job.rounds, INTERVALS))) ?? [];
  for (const engine of engines) await engine.dispose();

  console.log(`${asked.name} is timed at ${now().toFixed(0)} ms`);

  // 3. Ours alone, without what makes it fast.
  const url = new URL(asked.zoo, document.baseURI).href;
  const bare = await attempt("variants", () => BareDecoder.load(url));
  const without = bare && (await attempt("variants", () => varied(bare, asked, job)));
  const profiles =
    bare && (await attempt("profile", () => bare.profiles(asked.contexts, job.rounds)));
  const blockProfiles =
    bare &&
    (await attempt("prompt's profile", () => bare.blockProfiles(asked.contexts, job.rounds)));
  if (bare !== null) differences[OURS] = differs(await bare.logits(asked.prompt));
  bare?.dispose();
  if (peer !== null) peers.add(peer.name);
  return {
    name: asked.name,
    cache: asked.cache,
    calls: bare?.calls ?? 0,
    tokens: asked.tokens,
    sameTokens: greedy.length === 2 ? sameTokens(greedy[0] ?? [], greedy[1] ?? []) : 0,
    differences,
    decoded,
    varied: without ?? [],
    profiles: profiles ?? [],
    blockProfiles: blockProfiles ?? [],
    times,
    bySum: bySum ?? [],
    failures,
  };
}

async function run(): Promise<DecodingAnswer> {
  const job = (await (await fetch("job.json")).json()) as DecodingJob;
  const decoders: DecoderAnswer[] = [];
  for (const asked of job.decoders) {
    console.log(`${asked.name} begins at ${now().toFixed(0)} ms`);
    decoders.push(await measured(asked, job));
  }
  return { ...(await pageAnswer(job.commit, releasesOf(peers))), decoders };
}

Object.assign(globalThis, { kernelzooDecoding: { run } });
