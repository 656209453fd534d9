@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 32u + thread < 25u) {
    let j = ((group * 32u + thread) % 5u);
    let i_up = ((group * 32u + thread) / 5u);
    if (j * 4u < 8u) {
      c[i_up * 5u + j] = a[i_up * 2u + j];
    }
    else {
      c[i_up * 5u + j] = b[i_up * 3u + j - 2u];
    }
  }
}
