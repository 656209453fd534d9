/**
 * The service worker of this page: what was fetched once is there when the network is not, but for the
 * zoo, whose network the device keeps as a graph.
 */

const KEPT = "digits-page";
const PAGE = ["./", "digits.js", "digits.css", "paper.js", "../page.css", "../zoo.js"];

addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll(PAGE)));
  skipWaiting();
});

addEventListener("activate", (event) => event.waitUntil(clients.claim()));

async function answer(request) {
  const kept = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.status === 200) await kept.put(request, response.clone());
    return response;
  } catch (failure) {
    const found = await kept.match(request, { ignoreSearch: request.mode === "navigate" });
    if (found === undefined) throw failure;
    return found;
  }
}

addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const { origin, pathname } = new URL(url);
  if (method === "GET" && origin === location.origin && !pathname.includes("/zoo/")) {
    event.respondWith(answer(event.request));
  }
});
