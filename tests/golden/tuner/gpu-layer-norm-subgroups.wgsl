enable subgroups;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> gamma: array<f32>;
@group(0) @binding(2) var<storage, read> beta: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> shared1: array<f32, 32>;
var<workgroup> shared0: array<f32, 32>;
fn over_shared0(value: f32, thread: u32, lanes: u32) -> f32 {
  var part = value;
  if (lanes >= 16u) {
    part = part + subgroupShuffleXor(part, 1u);
    part = part + subgroupShuffleXor(part, 2u);
    part = part + subgroupShuffleXor(part, 4u);
    part = part + subgroupShuffleXor(part, 8u);
    return part;
  }
  let span = min(lanes, 16u);
  for (var step = 1u; step < span && lanes < 16u; step <<= 1u) {
    part = part + subgroupShuffleXor(part, step);
  }
  shared0[thread] = part;
  workgroupBarrier();
  let start = thread - thread % 16u;
  part = shared0[start];
  for (var next = span; next < 16u; next += span) {
    part = part + shared0[start + next];
  }
  return part;
}
fn over_shared1(value: f32, thread: u32, lanes: u32) -> f32 {
  var part = value;
  if (lanes >= 16u) {
    part = part + subgroupShuffleXor(part, 1u);
    part = part + subgroupShuffleXor(part, 2u);
    part = part + subgroupShuffleXor(part, 4u);
    part = part + subgroupShuffleXor(part, 8u);
    return part;
  }
  let span = min(lanes, 16u);
  for (var step = 1u; step < span && lanes < 16u; step <<= 1u) {
    part = part + subgroupShuffleXor(part, step);
  }
  shared1[thread] = part;
  workgroupBarrier();
  let start = thread - thread % 16u;
  part = shared1[start];
  for (var next = span; next < 16u; next += span) {
    part = part + shared1[start + next];
  }
  return part;
}
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32, @builtin(subgroup_size) subgroup_lanes: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var part0_0: f32;
  var part1_0: f32;
  let own = (thread / 16u);
  let lane = (thread % 16u);
  let row = min((group * 2u + own), 4u);
  part0_0 = 0.0f;
  for (var step = 0u; step < 2u; step++) {
    if (lane + step * 16u < 30u) {
      part0_0 = (part0_0 + a[lane + row * 30u + step * 16u]);
    }
  }
  let whole0_0 = over_shared0(part0_0, (lane + own * 16u), subgroup_lanes);
  let single0_0 = (whole0_0 * 0.03333333333333333f);
  part1_0 = 0.0f;
  for (var step = 0u; step < 2u; step++) {
    if (lane + step * 16u < 30u) {
      let r1 = a[lane + row * 30u + step * 16u];
      part1_0 = fma((r1 - single0_0), (r1 - single0_0), part1_0);
    }
  }
  let whole1_0 = over_shared1(part1_0, (lane + own * 16u), subgroup_lanes);
  let single1_0 = inverseSqrt(fma(whole1_0, 0.03333333333333333f, 1e-05f));
  if (group * 2u + own < 5u) {
    for (var step = 0u; step < 2u; step++) {
      if (lane + step * 16u < 30u) {
        c[lane + row * 30u + step * 16u] = fma(((a[lane + row * 30u + step * 16u] - single0_0) * single1_0), gamma[lane + step * 16u], beta[lane + step * 16u]);
      }
    }
  }
}
