@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> indices: array<i32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  if (group * 64u + thread < 24u) {
    let j = ((group * 64u + thread) % 8u);
    let i_up = ((group * 64u + thread) / 8u);
    let v = u32(indices[i_up]);
    let v_1 = u32(min(i32(v), i32(8u)));
    let v_2 = u32(max(i32(v_1), i32(0u)));
    c[i_up * 8u + j] = a[j + v_2 * 8u];
  }
}
