import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { follow } from "../src/tuning/queue.js";

test("a gateway that was busy, away and cut off is asked again, from where it broke off", async () => {
  const batch = JSON.stringify({ workload: "product", candidates: [], cursor: "7" });
  const answers: RequestListener[] = [
    (_, response) => response.writeHead(503, { "Retry-After": "3" }).end(),
    (request) => request.socket.destroy(),
    (_, response) => {
      response.write(`${batch}\n{"workload": "cut`, () => response.destroy());
    },
    (_, response) => response.end('{"end":"waited","retry_s":0,"cursor":"7"}\n'),
    (_, response) => response.end('{"end":"complete","retry_s":0,"cursor":"7"}\n'),
  ];
  const server = createServer((...exchange) => answers.shift()?.(...exchange));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const [asked, slept, told, taken]: [string[], number[], string[], string[]] = [[], [], [], []];
  try {
    const { port } = server.address() as AddressInfo;
    const reason = await follow(`http://127.0.0.1:${port}/candidates?each=24`, {
      take: ({ workload }) => taken.push(workload),
      again: false,
      asks: ({ search }) => asked.push(search),
      waiting: (message) => told.push(message),
      sleep: async (ms) => void slept.push(ms),
    });
    assert.equal(reason, "There are no more candidates.");
  } finally {
    server.close();
  }
  const [first, resumed] = ["?each=24", "?each=24&after=7"];
  assert.deepEqual(asked, [first, first, first, resumed, resumed]);
  assert.deepEqual(slept, [3_000, 4_000, 2_000, 2_000], "longer each time until a line comes");
  assert.deepEqual(taken, ["product"]);
  assert.equal(told.length, 2, "the connection that failed and the one that was cut");
  for (const message of told) assert.match(message, /^The zoo does not answer: /);
});
