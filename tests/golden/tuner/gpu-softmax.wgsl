var<private> runtime_bits: u32;
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> shared1_1: array<f32, 8>;
var<workgroup> shared1_0: array<f32, 32>;
var<workgroup> shared0_1: array<f32, 8>;
var<workgroup> shared0_0: array<f32, 32>;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var entries_0: vec4<f32>;
  var entries_4: vec4<f32>;
  var part0_0: vec4<f32>;
  var part1_0: vec4<f32>;
  let own = (thread / 8u);
  let lane = (thread % 8u);
  let row = min((group * 4u + own), 5u);
  part0_0 = vec4<f32>(bitcast<f32>(runtime_bits | 4286578688u));
  entries_0 = a[lane + row * 9u];
  part0_0 = max(part0_0, entries_0);
  if (lane + 8u < 9u) {
    entries_4 = a[lane + row * 9u + 8u];
    part0_0 = max(part0_0, entries_4);
  }
  shared0_0[lane + own * 8u] = max(max(part0_0.x, part0_0.y), max(part0_0.z, part0_0.w));
  workgroupBarrier();
  if (lane < 2u) {
    shared0_1[lane + own * 2u] = max(max(shared0_0[lane + own * 8u], shared0_0[lane + own * 8u + 2u]), max(shared0_0[lane + own * 8u + 4u], shared0_0[lane + own * 8u + 6u]));
  }
  workgroupBarrier();
  let single0_0 = max(shared0_1[own * 2u], shared0_1[own * 2u + 1u]);
  part1_0 = vec4<f32>(0.0f);
  entries_0 = exp_of_4((entries_0 - vec4<f32>(single0_0)));
  part1_0 = (part1_0 + entries_0);
  if (lane + 8u < 9u) {
    entries_4 = exp_of_4((entries_4 - vec4<f32>(single0_0)));
    part1_0 = (part1_0 + entries_4);
  }
  shared1_0[lane + own * 8u] = ((part1_0.x + part1_0.y) + (part1_0.z + part1_0.w));
  workgroupBarrier();
  if (lane < 2u) {
    shared1_1[lane + own * 2u] = ((shared1_0[lane + own * 8u] + shared1_0[lane + own * 8u + 2u]) + (shared1_0[lane + own * 8u + 4u] + shared1_0[lane + own * 8u + 6u]));
  }
  workgroupBarrier();
  let single1_0 = (1.0f / (shared1_1[own * 2u] + shared1_1[own * 2u + 1u]));
  if (group * 4u + own < 6u) {
    c[lane + row * 9u] = (entries_0 * vec4<f32>(single1_0));
    if (lane + 8u < 9u) {
      c[lane + row * 9u + 8u] = (entries_4 * vec4<f32>(single1_0));
    }
  }
}
fn exp_of_4(x: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(exp(x), x, no_x);
}
