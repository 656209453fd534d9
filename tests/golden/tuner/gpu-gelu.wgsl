@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 8u) {
    let r1 = a[group * 64u + thread];
    let f0_0 = maximum_of_4(minimum_of_4((r1 * vec4<f32>(0.7071067811865476f)), vec4<f32>(4.11f)), vec4<f32>(-4.11f));
    let f0_1 = (f0_0 * f0_0);
    c[group * 64u + thread] = ((vec4<f32>(0.5f) * r1) * (vec4<f32>(1.0f) + maximum_of_4(minimum_of_4(((f0_0 * fma(fma(fma(fma(fma(vec4<f32>(2.0259583379811374e-06f), f0_1, vec4<f32>(0.00028468534583225846f)), f0_1, vec4<f32>(0.003807986620813608f)), f0_1, vec4<f32>(0.05287490040063858f)), f0_1, vec4<f32>(0.1915460079908371f)), f0_1, vec4<f32>(1.1283791065216064f))) / fma(fma(fma(fma(fma(vec4<f32>(3.783220745390281e-05f), f0_1, vec4<f32>(0.0011706865625455976f)), f0_1, vec4<f32>(0.015054733492434025f)), f0_1, vec4<f32>(0.11455786228179932f)), f0_1, vec4<f32>(0.5030859112739563f)), f0_1, vec4<f32>(1.0f))), vec4<f32>(1.0f)), vec4<f32>(-1.0f))));
  }
}
fn minimum_of_4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  let no_y = (bitcast<vec4<i32>>(y) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(select(min(x, y), y, no_y), x, no_x);
}
fn maximum_of_4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  let no_y = (bitcast<vec4<i32>>(y) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
