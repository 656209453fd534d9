enable f16;
var<private> runtime_bits: u32;
@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read_write> c: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> scratch: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var largest_total_0: f32;
  if (group * 64u + thread < 4u) {
    largest_total_0 = bitcast<f32>(runtime_bits | 4286578688u);
    for (var k = 0u; k < 8u; k++) {
      largest_total_0 = maximum(largest_total_0, f32(a[group * 512u + k + thread * 8u]));
    }
    scratch[group * 64u + thread] = largest_total_0;
  }
}
@compute @workgroup_size(64)
fn then_1(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 8u) {
    let j = ((group * 64u + thread) % 2u);
    let i_1_up = ((group * 64u + thread) / 2u);
    {
      let four = exp_of_4((vec4<f32>(f32(a[i_1_up * 8u + j * 4u]), f32(a[i_1_up * 8u + j * 4u + 1u]), f32(a[i_1_up * 8u + j * 4u + 2u]), f32(a[i_1_up * 8u + j * 4u + 3u])) - vec4<f32>(scratch[i_1_up])));
      scratch[i_1_up * 8u + j * 4u + 4u] = four.x;
      scratch[i_1_up * 8u + j * 4u + 5u] = four.y;
      scratch[i_1_up * 8u + j * 4u + 6u] = four.z;
      scratch[i_1_up * 8u + j * 4u + 7u] = four.w;
    }
  }
}
@compute @workgroup_size(64)
fn then_2(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var total_total_0: f32;
  if (group * 64u + thread < 4u) {
    total_total_0 = 0.0f;
    for (var k_1 = 0u; k_1 < 8u; k_1++) {
      total_total_0 = (total_total_0 + scratch[group * 512u + k_1 + thread * 8u + 4u]);
    }
    scratch[group * 64u + thread + 36u] = total_total_0;
  }
}
@compute @workgroup_size(64)
fn then_3(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 8u) {
    let j_1 = ((group * 64u + thread) % 2u);
    let i_3_up = ((group * 64u + thread) / 2u);
    c[i_3_up * 2u + j_1] = vec4<f16>((vec4<f32>(scratch[i_3_up * 8u + j_1 * 4u + 4u], scratch[i_3_up * 8u + j_1 * 4u + 5u], scratch[i_3_up * 8u + j_1 * 4u + 6u], scratch[i_3_up * 8u + j_1 * 4u + 7u]) / vec4<f32>(scratch[i_3_up + 36u])));
  }
}
fn maximum(x: f32, y: f32) -> f32 {
  let no_x = (bitcast<i32>(x) & i32(0x7fffffff)) > i32(0x7f800000);
  let no_y = (bitcast<i32>(y) & i32(0x7fffffff)) > i32(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
fn exp_of_4(x: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(exp(x), x, no_x);
}
