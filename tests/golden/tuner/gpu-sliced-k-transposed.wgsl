@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> layers: array<vec4<f32>, 256>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let panel = (group / 2u);
  let column = (group % 2u);
  let thread = invocation;
  var next_a_0: vec4<f32>;
  var next_b_0: vec4<f32>;
  var next_b_4: vec4<f32>;
  var own_a_0: vec4<f32>;
  var sums_0: vec4<f32>;
  var sums_12: vec4<f32>;
  var sums_16: vec4<f32>;
  var sums_20: vec4<f32>;
  var sums_24: vec4<f32>;
  var sums_28: vec4<f32>;
  var sums_4: vec4<f32>;
  var sums_8: vec4<f32>;
  let z = (thread / 16u);
  let y = ((thread / 4u) % 4u);
  let x = (thread % 4u);
  let a0_row = (thread / 4u);
  let a0_step = (thread % 4u);
  let a0_at = min((a0_step + panel * 4u), 4u);
  let b0_row = (thread / 8u);
  let b0_step = (thread % 8u);
  let b0_at = min((b0_step + column * 8u), 8u);
  let b1_at = min((b0_step + column * 8u), 8u);
  sums_0 = vec4<f32>(0.0f);
  sums_4 = vec4<f32>(0.0f);
  sums_8 = vec4<f32>(0.0f);
  sums_12 = vec4<f32>(0.0f);
  sums_16 = vec4<f32>(0.0f);
  sums_20 = vec4<f32>(0.0f);
  sums_24 = vec4<f32>(0.0f);
  sums_28 = vec4<f32>(0.0f);
  next_a_0 = a[a0_at + a0_row * 5u];
  next_b_0 = b[b0_at + b0_row * 9u];
  next_b_4 = b[b0_row * 9u + b1_at + 72u];
  for (var block = 0u; block < 2u; block++) {
    workgroupBarrier();
    layers[a0_row * 5u + a0_step] = next_a_0;
    layers[b0_row * 8u + b0_step + 80u] = next_b_0;
    layers[b0_row * 8u + b0_step + 144u] = next_b_4;
    workgroupBarrier();
    if (block < 1u) {
      if (a0_row + 16u < 18u) {
        next_a_0 = a[a0_at + a0_row * 5u + 80u];
      }
      else {
        next_a_0 = vec4<f32>(0.0f);
      }
      if (b0_row + 16u < 18u) {
        next_b_0 = b[b0_at + b0_row * 9u + 144u];
      }
      else {
        next_b_0 = vec4<f32>(0.0f);
      }
      next_b_4 = vec4<f32>(0.0f);
    }
    own_a_0 = layers[y + z * 20u];
    let r1 = layers[x + z * 32u + 80u];
    sums_0 = fma(vec4<f32>(own_a_0.x), r1, sums_0);
    let r2 = layers[x + z * 32u + 84u];
    sums_4 = fma(vec4<f32>(own_a_0.x), r2, sums_4);
    sums_8 = fma(vec4<f32>(own_a_0.y), r1, sums_8);
    sums_12 = fma(vec4<f32>(own_a_0.y), r2, sums_12);
    sums_16 = fma(vec4<f32>(own_a_0.z), r1, sums_16);
    sums_20 = fma(vec4<f32>(own_a_0.z), r2, sums_20);
    sums_24 = fma(vec4<f32>(own_a_0.w), r1, sums_24);
    sums_28 = fma(vec4<f32>(own_a_0.w), r2, sums_28);
    own_a_0 = layers[y + z * 20u + 5u];
    let r3 = layers[x + z * 32u + 88u];
    sums_0 = fma(vec4<f32>(own_a_0.x), r3, sums_0);
    let r4 = layers[x + z * 32u + 92u];
    sums_4 = fma(vec4<f32>(own_a_0.x), r4, sums_4);
    sums_8 = fma(vec4<f32>(own_a_0.y), r3, sums_8);
    sums_12 = fma(vec4<f32>(own_a_0.y), r4, sums_12);
    sums_16 = fma(vec4<f32>(own_a_0.z), r3, sums_16);
    sums_20 = fma(vec4<f32>(own_a_0.z), r4, sums_20);
    sums_24 = fma(vec4<f32>(own_a_0.w), r3, sums_24);
    sums_28 = fma(vec4<f32>(own_a_0.w), r4, sums_28);
    own_a_0 = layers[y + z * 20u + 10u];
    let r5 = layers[x + z * 32u + 96u];
    sums_0 = fma(vec4<f32>(own_a_0.x), r5, sums_0);
    let r6 = layers[x + z * 32u + 100u];
    sums_4 = fma(vec4<f32>(own_a_0.x), r6, sums_4);
    sums_8 = fma(vec4<f32>(own_a_0.y), r5, sums_8);
    sums_12 = fma(vec4<f32>(own_a_0.y), r6, sums_12);
    sums_16 = fma(vec4<f32>(own_a_0.z), r5, sums_16);
    sums_20 = fma(vec4<f32>(own_a_0.z), r6, sums_20);
    sums_24 = fma(vec4<f32>(own_a_0.w), r5, sums_24);
    sums_28 = fma(vec4<f32>(own_a_0.w), r6, sums_28);
    own_a_0 = layers[y + z * 20u + 15u];
    let r7 = layers[x + z * 32u + 104u];
    sums_0 = fma(vec4<f32>(own_a_0.x), r7, sums_0);
    let r8 = layers[x + z * 32u + 108u];
    sums_4 = fma(vec4<f32>(own_a_0.x), r8, sums_4);
    sums_8 = fma(vec4<f32>(own_a_0.y), r7, sums_8);
    sums_12 = fma(vec4<f32>(own_a_0.y), r8, sums_12);
    sums_16 = fma(vec4<f32>(own_a_0.z), r7, sums_16);
    sums_20 = fma(vec4<f32>(own_a_0.z), r8, sums_20);
    sums_24 = fma(vec4<f32>(own_a_0.w), r7, sums_24);
    sums_28 = fma(vec4<f32>(own_a_0.w), r8, sums_28);
  }
  workgroupBarrier();
  if (i32(0u - z) < -1) {
    layers[x + y * 4u + z * 16u - 32u] = sums_0;
    layers[x + y * 4u + z * 16u] = sums_4;
    layers[x + y * 4u + z * 16u + 32u] = sums_8;
    layers[x + y * 4u + z * 16u + 64u] = sums_12;
    layers[x + y * 4u + z * 16u + 96u] = sums_16;
    layers[x + y * 4u + z * 16u + 128u] = sums_20;
    layers[x + y * 4u + z * 16u + 160u] = sums_24;
    layers[x + y * 4u + z * 16u + 192u] = sums_28;
  }
  workgroupBarrier();
  if (z < 2u) {
    sums_0 = (sums_0 + layers[x + y * 4u + z * 16u]);
    sums_4 = (sums_4 + layers[x + y * 4u + z * 16u + 32u]);
    sums_8 = (sums_8 + layers[x + y * 4u + z * 16u + 64u]);
    sums_12 = (sums_12 + layers[x + y * 4u + z * 16u + 96u]);
    sums_16 = (sums_16 + layers[x + y * 4u + z * 16u + 128u]);
    sums_20 = (sums_20 + layers[x + y * 4u + z * 16u + 160u]);
    sums_24 = (sums_24 + layers[x + y * 4u + z * 16u + 192u]);
    sums_28 = (sums_28 + layers[x + y * 4u + z * 16u + 224u]);
  }
  workgroupBarrier();
  if (i32(0u - z) < 0 && z < 2u) {
    layers[x + y * 4u + z * 16u - 16u] = sums_0;
    layers[x + y * 4u + z * 16u + 16u] = sums_4;
    layers[x + y * 4u + z * 16u + 48u] = sums_8;
    layers[x + y * 4u + z * 16u + 80u] = sums_12;
    layers[x + y * 4u + z * 16u + 112u] = sums_16;
    layers[x + y * 4u + z * 16u + 144u] = sums_20;
    layers[x + y * 4u + z * 16u + 176u] = sums_24;
    layers[x + y * 4u + z * 16u + 208u] = sums_28;
  }
  workgroupBarrier();
  if (z < 1u) {
    sums_0 = (sums_0 + layers[x + y * 4u + z * 16u]);
    sums_4 = (sums_4 + layers[x + y * 4u + z * 16u + 32u]);
    sums_8 = (sums_8 + layers[x + y * 4u + z * 16u + 64u]);
    sums_12 = (sums_12 + layers[x + y * 4u + z * 16u + 96u]);
    sums_16 = (sums_16 + layers[x + y * 4u + z * 16u + 128u]);
    sums_20 = (sums_20 + layers[x + y * 4u + z * 16u + 160u]);
    sums_24 = (sums_24 + layers[x + y * 4u + z * 16u + 192u]);
    sums_28 = (sums_28 + layers[x + y * 4u + z * 16u + 224u]);
    if (panel * 16u + y * 4u < 20u) {
      if (column * 32u + x * 4u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u] = (sums_0 + bias[column * 8u + x]);
      }
      if (column * 32u + x * 4u + 16u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 4u] = (sums_4 + bias[column * 8u + x + 4u]);
      }
    }
    if (panel * 16u + y * 4u + 1u < 20u) {
      if (column * 32u + x * 4u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 9u] = (sums_8 + bias[column * 8u + x]);
      }
      if (column * 32u + x * 4u + 16u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 13u] = (sums_12 + bias[column * 8u + x + 4u]);
      }
    }
    if (panel * 16u + y * 4u + 2u < 20u) {
      if (column * 32u + x * 4u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 18u] = (sums_16 + bias[column * 8u + x]);
      }
      if (column * 32u + x * 4u + 16u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 22u] = (sums_20 + bias[column * 8u + x + 4u]);
      }
    }
    if (panel * 16u + y * 4u + 3u < 20u) {
      if (column * 32u + x * 4u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 27u] = (sums_24 + bias[column * 8u + x]);
      }
      if (column * 32u + x * 4u + 16u < 36u) {
        c[column * 8u + panel * 144u + x + y * 36u + 31u] = (sums_28 + bias[column * 8u + x + 4u]);
      }
    }
  }
}
