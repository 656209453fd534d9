/** A model in the page behind the `fetch` of clients of OpenAI's API, which ask for it by HTTP. */
import type { ChatClient } from "./completions.js";
import type { ChatCompletionCreateParams, ChatCompletionStream } from "./types.js";

const JSON_TYPE = { "Content-Type": "application/json" };

/** An error as the API has them. Clients try again what answers 500, which would not help here. */
function refusal(status: number, thrown: unknown): Response {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const error = { message, type: "invalid_request_error", param: null, code: null };
  return new Response(JSON.stringify({ error }), { status, headers: JSON_TYPE });
}

/** Chunks as events; an error behind the first of them is an event, too. */
function eventsOf(chunks: ChatCompletionStream): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = chunks[Symbol.asyncIterator]();
  const event = (data: string): Uint8Array => encoder.encode(`data: ${data}\n\n`);
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await iterator.next();
        controller.enqueue(event(done ? "[DONE]" : JSON.stringify(value)));
        if (done) controller.close();
      } catch (thrown) {
        controller.error(thrown);
      }
    },
    cancel() {
      chunks.controller.abort();
    },
  });
}

async function completed(
  client: ChatClient,
  params: ChatCompletionCreateParams,
  signal: AbortSignal,
): Promise<Response> {
  try {
    const answer = await client.chat.completions.create(params, { signal });
    if ("choices" in answer) return new Response(JSON.stringify(answer), { headers: JSON_TYPE });
    return new Response(eventsOf(answer), { headers: { "Content-Type": "text/event-stream" } });
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return refusal(400, thrown);
  }
}

/**
 * A `fetch` that answers `POST …/chat/completions` and `GET …/models` with the model of a client, at
 * any address, for clients that are made for servers: `fetch` of OpenAI's, and of providers of the AI
 * SDK. Nothing is sent. What the model has not is answered with status 400 and a sentence.
 */
export function chatFetch(client: ChatClient): typeof globalThis.fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const { pathname } = new URL(request.url);
    if (request.method === "POST" && pathname.endsWith("/chat/completions")) {
      const params = (await request.json().catch(() => null)) as ChatCompletionCreateParams;
      return completed(client, params, request.signal);
    }
    if (request.method === "GET" && pathname.endsWith("/models")) {
      const model = { id: client.name, object: "model", created: 0, owned_by: "kernelzoo" };
      const list = { object: "list", data: [model] };
      return new Response(JSON.stringify(list), { headers: JSON_TYPE });
    }
    const known = "POST /chat/completions and GET /models are answered in this page.";
    return refusal(404, `${request.method} ${pathname} is not known: ${known}`);
  };
}
