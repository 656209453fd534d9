@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 27u) {
    let j = ((group * 64u + thread) % 9u);
    let i_up = ((group * 64u + thread) / 9u);
    if (j < 4u) {
      c[i_up * 9u + j] = a[i_up * 4u + j];
    }
    else {
      c[i_up * 9u + j] = b[i_up * 5u + j - 4u];
    }
  }
}
