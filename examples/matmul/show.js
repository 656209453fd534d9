const byId = (id) => document.getElementById(id);

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

function row(name, gflops, full, className) {
  const bar = element("div", `bar ${className}`);
  bar.style.width = `${(100 * gflops) / full}%`;
  const figure = `${gflops.toFixed(1)} GFLOP/s`;
  return element(
    "div",
    "row",
    element("span", "name", name),
    element("div", "track", bar),
    element("span", "figure", figure),
  );
}

function fact(name, text) {
  return element("div", "", element("dt", "", name), element("dd", "", text));
}

const STEPS = {
  exact: "voted for by devices like this one",
  device: "voted for in another browser on this device",
  architecture: "best on devices of this architecture",
  vendor: "best on devices of this vendor",
  common: "best on average of all devices",
  shape: "voted for by devices like this one, for a similar shape",
  model: "foretold by the cost model; nobody has voted on it yet",
  default: "the default; nobody has voted on it yet",
};

const LIMITS = { wasm: "Limit of the core", webgpu: "Limit of the GPU" };

const SAME = ", which is the winner on devices like this one: the difference is noise";

export function showStatus(text) {
  byId("status").textContent = text;
}

export function showResult(result) {
  const full = Math.max(result.default_gflops, result.zoo_gflops, result.limit_gflops);
  byId("chart").replaceChildren(
    element("p", "headline", `${result.speedup.toFixed(2)}×`),
    element("p", "quiet", `the speed of the default kernel${result.same_kernel ? SAME : ""}`),
    row("Default kernel", result.default_gflops, full, ""),
    row("From the zoo", result.zoo_gflops, full, "zoo"),
    row(LIMITS[result.backend], result.limit_gflops, full, "limit"),
  );
  const votes = `${result.votes} ${result.votes === 1 ? "ballot" : "ballots"}`;
  const right = result.correct ? "all right" : "wrong";
  byId("facts").append(
    fact("Chosen", STEPS[result.level] ?? result.level),
    fact("Evidence", result.state === null ? "none yet" : `${result.state}, ${votes}`),
    fact(
      `${result.checked} entries checked`,
      `${right}, off by ${result.max_error.toExponential(1)}`,
    ),
    fact("Answer of the zoo", `${result.manifestMs.toFixed(1)} ms`),
  );
  if (result.fallback_reason !== null) {
    byId("facts").append(fact("The zoo's kernel did not load", result.fallback_reason));
  }
  byId("facts").hidden = false;
}

export function showError(message) {
  byId("chart").hidden = true;
  byId("error").textContent = message;
  byId("error").hidden = false;
}
