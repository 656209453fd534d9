import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { follow, type QueuePorts } from "../src/tuning/candidate-stream.js";

const PORTS: QueuePorts = {
  take: () => undefined,
  again: false,
  asks: () => undefined,
  waiting: () => undefined,
  sleep: async () => undefined,
};

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
      ...PORTS,
      take: ({ workload }) => taken.push(workload),
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

test("a connection on which nothing is heard is given up, and the gateway asked again", async () => {
  const answers: RequestListener[] = [
    () => undefined,
    (_, response) => void response.write('{"waiting":1}\n'),
    (_, response) => {
      let lines = 0;
      const speaking = setInterval(() => {
        response.write('{"waiting":1}\n');
        if (++lines < 8) return;
        clearInterval(speaking);
        response.end('{"end":"complete","retry_s":0,"cursor":"7"}\n');
      }, 50);
    },
  ];
  const server = createServer((...exchange) => answers.shift()?.(...exchange));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const told: string[] = [];
  try {
    const { port } = server.address() as AddressInfo;
    const address = `http://127.0.0.1:${port}/candidates`;
    const reason = await follow(address, { ...PORTS, waiting: (why) => told.push(why) }, 250);
    assert.equal(reason, "There are no more candidates.", "one that speaks is listened to");
  } finally {
    server.close();
    server.closeAllConnections();
  }
  const dead = "The zoo does not answer: nothing was heard for 0.25 s";
  assert.deepEqual(told, [dead, dead], "before it answered, and after");
});

test("what nobody has measured is expected as it is foretold, but where this page's agent tries it", async () => {
  const kernel = {};
  const candidates = [
    { kernel, expected: 0.9, predicted: 0.4 },
    { kernel, expected: null, predicted: 0.7 },
    { kernel, expected: null, predicted: null },
    { kernel, expected: null },
  ];
  const line = JSON.stringify({ workload: "product", candidates, cursor: "7" });
  const server = createServer((_, response) =>
    response.end(`${line}\n{"end":"settled","retry_s":60,"cursor":""}\n`),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const expected = async (again: boolean): Promise<(number | null)[]> => {
    const { port } = server.address() as AddressInfo;
    const taken: (number | null)[] = [];
    const take: QueuePorts["take"] = (batch) =>
      taken.push(...batch.candidates.map((each) => each.expected));
    await follow(`http://127.0.0.1:${port}/candidates`, { ...PORTS, again, take });
    return taken;
  };
  try {
    assert.deepEqual(await expected(false), [0.9, 0.7, null, null]);
    assert.deepEqual(
      (await expected(true)).map((each) => each ?? null),
      [0.9, null, null, null],
    );
  } finally {
    server.close();
  }
});
