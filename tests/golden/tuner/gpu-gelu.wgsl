@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 8u) {
    let r1 = a[group * 64u + thread];
    let f0_0 = (r1 * vec4<f32>(0.7071067811865476f));
    let f0_1 = min(abs(f0_0), vec4<f32>(3.95f));
    let f0_2 = (f0_1 * f0_1);
    let f0_3 = exp((vec4<f32>(0.0f) - fma(f0_1, fma(fma(fma(fma(fma(fma(vec4<f32>(1.161252657766454e-05f), f0_1, vec4<f32>(-0.00032662483863532543f)), f0_1, vec4<f32>(0.003658018307760358f)), f0_1, vec4<f32>(-0.023795023560523987f)), f0_1, vec4<f32>(0.10627520829439163f)), f0_1, vec4<f32>(0.6351280808448792f)), f0_1, vec4<f32>(0.12865422666072845f)), f0_1)));
    c[group * 64u + thread] = ((vec4<f32>(0.5f) * r1) * (vec4<f32>(1.0f) + bitcast<vec4<f32>>((bitcast<vec4<i32>>(select((vec4<f32>(1.0f) - f0_3), fma(f0_1, fma(fma(fma(fma(fma(fma(vec4<f32>(8.316772436955944e-05f), f0_2, vec4<f32>(-0.0008130011847242713f)), f0_2, vec4<f32>(0.005199906416237354f)), f0_2, vec4<f32>(-0.026858940720558167f)), f0_2, vec4<f32>(0.11283687502145767f)), f0_2, vec4<f32>(-0.37612631916999817f)), f0_2, vec4<f32>(0.12837916612625122f)), f0_1), (f0_1 < vec4<f32>(0.93f)))) | (bitcast<vec4<i32>>(f0_0) & vec4<i32>(i32(-2147483648)))))));
  }
}
