@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  c[group * 64u + thread] = maximum_of_4(a[group * 64u + thread], vec4<f32>(0.0f));
  if (group * 64u + thread + 128u < 251u) {
    c[group * 64u + thread + 128u] = maximum_of_4(a[group * 64u + thread + 128u], vec4<f32>(0.0f));
  }
}
fn maximum_of_4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  let no_y = (bitcast<vec4<i32>>(y) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
