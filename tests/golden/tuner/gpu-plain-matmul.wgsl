@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> scratch: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var sum_total_0: vec4<f32>;
  if (group * 64u + thread < 12u) {
    let i1 = ((group * 64u + thread) % 2u);
    let i0_up = ((group * 64u + thread) / 2u);
    sum_total_0 = vec4<f32>(0.0f);
    for (var k = 0u; k < 4u; k++) {
      sum_total_0 = fma(vec4<f32>(a[i0_up * 4u + k]), b[i1 + k * 2u], sum_total_0);
    }
    scratch[i0_up * 2u + i1] = sum_total_0;
  }
}
@compute @workgroup_size(64)
fn then_1(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 12u) {
    let i1_1 = ((group * 64u + thread) % 2u);
    let i0_1_up = ((group * 64u + thread) / 2u);
    c[i0_1_up * 2u + i1_1] = (scratch[i0_1_up * 2u + i1_1] + bias[i1_1]);
  }
}
