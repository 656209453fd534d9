@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> c: array<atomic<u32>>;
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
      c_total_0 = fma(unpack2x16float(a[(i0_up * 5u + k) / 2u])[(i0_up * 5u + k) % 2u], unpack2x16float(b[(i1 + k * 7u) / 2u])[(i1 + k * 7u) % 2u], c_total_0);
    }
    keep_half(i0_up * 7u + i1, c_total_0);
  }
}
fn keep_half(index: u32, value: f32) {
  let shift = index % 2u * 16u;
  let half = pack2x16float(vec2<f32>(value, 0.0)) & 0xffffu;
  atomicAnd(&c[index / 2u], ~(0xffffu << shift));
  atomicOr(&c[index / 2u], half << shift);
}
