enable f16;
@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read> b: array<f16>;
@group(0) @binding(2) var<storage, read_write> c: array<f16>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var c_total_0: f32;
  if (group * 64u + thread < 21u) {
    let i1 = ((group * 64u + thread) % 7u);
    let i0_up = ((group * 64u + thread) / 7u);
    c_total_0 = 0.0f;
    for (var k = 0u; k < 5u; k++) {
      c_total_0 = fma(f32(a[i0_up * 5u + k]), f32(b[i1 + k * 7u]), c_total_0);
    }
    c[i0_up * 7u + i1] = f16(c_total_0);
  }
}
