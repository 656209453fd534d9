var<private> runtime_bits: u32;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> c: array<f32>;
@group(0) @binding(2) var<storage, read_write> scratch: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var largest_total_0: f32;
  if (group * 64u + thread < 4u) {
    largest_total_0 = bitcast<f32>(runtime_bits | 4286578688u);
    for (var k = 0u; k < 6u; k++) {
      largest_total_0 = maximum(largest_total_0, a[group * 384u + k + thread * 6u]);
    }
    scratch[group * 64u + thread] = largest_total_0;
  }
}
@compute @workgroup_size(64)
fn then_1(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 24u) {
    let j = ((group * 64u + thread) % 6u);
    let i_1_up = ((group * 64u + thread) / 6u);
    scratch[i_1_up * 6u + j + 4u] = exp_of((a[i_1_up * 6u + j] - scratch[i_1_up]));
  }
}
@compute @workgroup_size(64)
fn then_2(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var total_total_0: f32;
  if (group * 64u + thread < 4u) {
    total_total_0 = 0.0f;
    for (var k_1 = 0u; k_1 < 6u; k_1++) {
      total_total_0 = (total_total_0 + scratch[group * 384u + k_1 + thread * 6u + 4u]);
    }
    scratch[group * 64u + thread + 28u] = total_total_0;
  }
}
@compute @workgroup_size(64)
fn then_3(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 24u) {
    let j_1 = ((group * 64u + thread) % 6u);
    let i_3_up = ((group * 64u + thread) / 6u);
    c[i_3_up * 6u + j_1] = (scratch[i_3_up * 6u + j_1 + 4u] / scratch[i_3_up + 28u]);
  }
}
fn maximum(x: f32, y: f32) -> f32 {
  let no_x = (bitcast<i32>(x) & i32(0x7fffffff)) > i32(0x7f800000);
  let no_y = (bitcast<i32>(y) & i32(0x7fffffff)) > i32(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
fn exp_of(x: f32) -> f32 {
  let no_x = (bitcast<i32>(x) & i32(0x7fffffff)) > i32(0x7f800000);
  return select(exp(x), x, no_x);
}
