@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> layers: array<vec4<f32>, 12>;
@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var sums_0: vec4<f32>;
  let z = (thread / 4u);
  let x = (thread % 4u);
  let b_own0 = min((group * 4u + x), 9u);
  sums_0 = vec4<f32>(0.0f);
  for (var block = 0u; block < 4u; block++) {
    let own_a_0 = a[block * 4u + z];
    let own_b_0 = b[b_own0 + block * 160u + z * 40u];
    let own_b_4 = b[b_own0 + block * 160u + z * 40u + 10u];
    let own_b_8 = b[b_own0 + block * 160u + z * 40u + 20u];
    let own_b_12 = b[b_own0 + block * 160u + z * 40u + 30u];
    sums_0 = fma(vec4<f32>(own_a_0.x), own_b_0, sums_0);
    sums_0 = fma(vec4<f32>(own_a_0.y), own_b_4, sums_0);
    sums_0 = fma(vec4<f32>(own_a_0.z), own_b_8, sums_0);
    sums_0 = fma(vec4<f32>(own_a_0.w), own_b_12, sums_0);
  }
  if (i32(0u - z) < 0) {
    layers[x + z * 4u - 4u] = sums_0;
  }
  workgroupBarrier();
  if (z < 1u) {
    for (var above = 0u; above < 3u; above++) {
      sums_0 = (sums_0 + layers[above * 4u + x + z * 4u]);
    }
    if (group * 16u + x * 4u < 40u) {
      c[group * 4u + x] = sums_0;
    }
  }
}
