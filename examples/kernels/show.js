const byId = (id) => document.getElementById(id);

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

function row(name, value, full, className, unit = "GFLOP/s") {
  const bar = element("div", `bar ${className}`);
  bar.style.width = `${(100 * value) / full}%`;
  const figure = `${value.toFixed(1)} ${unit}`;
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

export function showStatus(text) {
  byId("status").textContent = text;
}

const times = (factor) => `${factor.toFixed(2)}×`;

/** Against the fastest framework, or the default kernel where no framework was timed. */
function headline({ frameworks, speedup, same_kernel }) {
  if (frameworks.length === 0) {
    if (same_kernel) return ["Same kernel", "this device runs the default kernel"];
    return [times(speedup), "the speed of the default kernel"];
  }
  const best = frameworks.reduce((one, other) => (other.gflops > one.gflops ? other : one));
  return [times(best.speedup), `the speed of ${best.name}, the fastest framework here`];
}

function kernelRows({ default_gflops, zoo_gflops, same_kernel }, full) {
  if (same_kernel) return [row("From the zoo, the default", zoo_gflops, full, "zoo")];
  return [
    row("Default kernel", default_gflops, full, ""),
    row("From the zoo", zoo_gflops, full, "zoo"),
  ];
}

function chart(result) {
  const { default_gflops, zoo_gflops, limit_gflops, frameworks, backend } = result;
  const rates = [
    default_gflops,
    zoo_gflops,
    limit_gflops,
    ...frameworks.map((each) => each.gflops),
  ];
  const full = Math.max(...rates);
  return [
    ...frameworks.map(({ name, gflops }) => row(name, gflops, full, "")),
    ...kernelRows(result, full),
    row(LIMITS[backend], limit_gflops, full, "limit"),
  ];
}

function facts(result) {
  const votes = `${result.votes} ${result.votes === 1 ? "ballot" : "ballots"}`;
  const right = result.correct ? "all right" : "wrong";
  const overDefault = result.same_kernel ? "the same kernel" : times(result.speedup);
  const told = [
    fact("Chosen", STEPS[result.level] ?? result.level),
    fact("Evidence", result.state === null ? "none yet" : `${result.state}, ${votes}`),
    fact("Over the default kernel", overDefault),
    fact("Of the limit", `${((100 * result.zoo_gflops) / result.limit_gflops).toFixed(0)} %`),
    fact(
      `${result.checked} entries checked`,
      `${right}, off by ${result.max_error.toExponential(1)}`,
    ),
    fact("Answer of the zoo", `${result.manifestMs.toFixed(1)} ms`),
  ];
  if (result.fallback_reason !== null) {
    told.push(fact("The zoo's kernel did not load", result.fallback_reason));
  }
  return told;
}

export function showResult(result) {
  const [figure, meaning] = headline(result);
  const list = element("dl", "", ...facts(result));
  byId("results").append(
    element(
      "section",
      "",
      element("h2", "", element("code", "", result.workload)),
      element("p", "headline", figure),
      element("p", "quiet", meaning),
      ...chart(result),
      list,
    ),
  );
}

/** A whole network, by the time of one run. */
export function showNetwork({ network, zoo_ms, peer, peer_ms, difference, calls, levels }) {
  const full = Math.max(zoo_ms, peer_ms ?? 0);
  const told = [fact("Calls of kernels", `${calls}`)];
  for (const [level, of] of Object.entries(STEPS)) {
    const count = levels.filter((each) => each === level).length;
    if (count > 0) told.push(fact(`${count} of them`, of));
  }
  const bars = [row("On the zoo's kernels", zoo_ms, full, "zoo", "ms")];
  const over = [];
  if (peer !== null) {
    bars.unshift(row(peer, peer_ms, full, "", "ms"));
    told.push(fact("Outputs differ by", `${difference.toExponential(1)} of the largest entry`));
    over.push(element("p", "headline", times(peer_ms / zoo_ms)));
    over.push(element("p", "quiet", `the speed of ${peer}`));
  }
  const heading = element("h2", "", element("code", "", network));
  const list = element("dl", "", ...told);
  byId("results").append(element("section", "", heading, ...over, ...bars, list));
}

export function showError(message) {
  byId("status").textContent = "";
  byId("error").textContent = message;
  byId("error").hidden = false;
}
