@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> block_b: array<vec4<f32>, 64>;
var<workgroup> block_a: array<vec4<f32>, 40>;
@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let panel = (group / 2u);
  let column = (group % 2u);
  let thread = invocation;
  var next_a_0: f32;
  var next_a_10: f32;
  var next_a_11: f32;
  var next_a_12: f32;
  var next_a_13: f32;
  var next_a_14: f32;
  var next_a_15: f32;
  var next_a_1: f32;
  var next_a_2: f32;
  var next_a_3: f32;
  var next_a_4: f32;
  var next_a_5: f32;
  var next_a_6: f32;
  var next_a_7: f32;
  var next_a_8: f32;
  var next_a_9: f32;
  var next_b_0: vec4<f32>;
  var next_b_12: vec4<f32>;
  var next_b_4: vec4<f32>;
  var next_b_8: vec4<f32>;
  var own_a_0: vec4<f32>;
  var sums_0: vec4<f32>;
  var sums_12: vec4<f32>;
  var sums_16: vec4<f32>;
  var sums_20: vec4<f32>;
  var sums_24: vec4<f32>;
  var sums_28: vec4<f32>;
  var sums_4: vec4<f32>;
  var sums_8: vec4<f32>;
  let y = (thread / 4u);
  let x = (thread % 4u);
  let a0_row = ((thread / 2u) % 4u);
  let a0_step = (thread % 2u);
  let a0_at0 = min((a0_row * 4u + panel * 16u), 17u);
  let a0_at1 = min((a0_row * 4u + panel * 16u + 1u), 17u);
  let a0_at2 = min((a0_row * 4u + panel * 16u + 2u), 17u);
  let a0_at3 = min((a0_row * 4u + panel * 16u + 3u), 17u);
  let b0_row = (thread / 8u);
  let b0_step = (thread % 8u);
  let b0_at = min((b0_step + column * 8u), 8u);
  let b1_at = min((b0_step + column * 8u), 8u);
  let b2_at = min((b0_step + column * 8u), 8u);
  let b3_at = min((b0_step + column * 8u), 8u);
  sums_0 = vec4<f32>(0.0f);
  sums_4 = vec4<f32>(0.0f);
  sums_8 = vec4<f32>(0.0f);
  sums_12 = vec4<f32>(0.0f);
  sums_16 = vec4<f32>(0.0f);
  sums_20 = vec4<f32>(0.0f);
  sums_24 = vec4<f32>(0.0f);
  sums_28 = vec4<f32>(0.0f);
  if (thread < 8u) {
    next_a_0 = a[a0_at0 * 10u + a0_step * 4u];
    next_a_1 = a[a0_at0 * 10u + a0_step * 4u + 1u];
    next_a_2 = a[a0_at0 * 10u + a0_step * 4u + 2u];
    next_a_3 = a[a0_at0 * 10u + a0_step * 4u + 3u];
    next_a_4 = a[a0_at1 * 10u + a0_step * 4u];
    next_a_5 = a[a0_at1 * 10u + a0_step * 4u + 1u];
    next_a_6 = a[a0_at1 * 10u + a0_step * 4u + 2u];
    next_a_7 = a[a0_at1 * 10u + a0_step * 4u + 3u];
    next_a_8 = a[a0_at2 * 10u + a0_step * 4u];
    next_a_9 = a[a0_at2 * 10u + a0_step * 4u + 1u];
    next_a_10 = a[a0_at2 * 10u + a0_step * 4u + 2u];
    next_a_11 = a[a0_at2 * 10u + a0_step * 4u + 3u];
    next_a_12 = a[a0_at3 * 10u + a0_step * 4u];
    next_a_13 = a[a0_at3 * 10u + a0_step * 4u + 1u];
    next_a_14 = a[a0_at3 * 10u + a0_step * 4u + 2u];
    next_a_15 = a[a0_at3 * 10u + a0_step * 4u + 3u];
  }
  next_b_0 = b[b0_at + b0_row * 9u];
  next_b_4 = b[b0_row * 9u + b1_at + 18u];
  next_b_8 = b[b0_row * 9u + b2_at + 36u];
  next_b_12 = b[b0_row * 9u + b3_at + 54u];
  for (var block = 0u; block < 2u; block++) {
    workgroupBarrier();
    if (thread < 8u) {
      block_a[a0_row + a0_step * 20u] = vec4<f32>(next_a_0, next_a_4, next_a_8, next_a_12);
      block_a[a0_row + a0_step * 20u + 5u] = vec4<f32>(next_a_1, next_a_5, next_a_9, next_a_13);
      block_a[a0_row + a0_step * 20u + 10u] = vec4<f32>(next_a_2, next_a_6, next_a_10, next_a_14);
      block_a[a0_row + a0_step * 20u + 15u] = vec4<f32>(next_a_3, next_a_7, next_a_11, next_a_15);
    }
    block_b[b0_row * 8u + b0_step] = next_b_0;
    block_b[b0_row * 8u + b0_step + 16u] = next_b_4;
    block_b[b0_row * 8u + b0_step + 32u] = next_b_8;
    block_b[b0_row * 8u + b0_step + 48u] = next_b_12;
    workgroupBarrier();
    if (block < 1u) {
      if (thread < 8u) {
        if (a0_step * 4u + 8u < 10u) {
          next_a_0 = a[a0_at0 * 10u + a0_step * 4u + 8u];
        }
        else {
          next_a_0 = 0.0f;
        }
        if (a0_step * 4u + 9u < 10u) {
          next_a_1 = a[a0_at0 * 10u + a0_step * 4u + 9u];
        }
        else {
          next_a_1 = 0.0f;
        }
        next_a_2 = 0.0f;
        next_a_3 = 0.0f;
        if (a0_step * 4u + 8u < 10u) {
          next_a_4 = a[a0_at1 * 10u + a0_step * 4u + 8u];
        }
        else {
          next_a_4 = 0.0f;
        }
        if (a0_step * 4u + 9u < 10u) {
          next_a_5 = a[a0_at1 * 10u + a0_step * 4u + 9u];
        }
        else {
          next_a_5 = 0.0f;
        }
        next_a_6 = 0.0f;
        next_a_7 = 0.0f;
        if (a0_step * 4u + 8u < 10u) {
          next_a_8 = a[a0_at2 * 10u + a0_step * 4u + 8u];
        }
        else {
          next_a_8 = 0.0f;
        }
        if (a0_step * 4u + 9u < 10u) {
          next_a_9 = a[a0_at2 * 10u + a0_step * 4u + 9u];
        }
        else {
          next_a_9 = 0.0f;
        }
        next_a_10 = 0.0f;
        next_a_11 = 0.0f;
        if (a0_step * 4u + 8u < 10u) {
          next_a_12 = a[a0_at3 * 10u + a0_step * 4u + 8u];
        }
        else {
          next_a_12 = 0.0f;
        }
        if (a0_step * 4u + 9u < 10u) {
          next_a_13 = a[a0_at3 * 10u + a0_step * 4u + 9u];
        }
        else {
          next_a_13 = 0.0f;
        }
        next_a_14 = 0.0f;
        next_a_15 = 0.0f;
      }
      next_b_0 = b[b0_at + b0_row * 9u + 72u];
      next_b_4 = vec4<f32>(0.0f);
      next_b_8 = vec4<f32>(0.0f);
      next_b_12 = vec4<f32>(0.0f);
    }
    for (var k2 = 0u; k2 < 2u; k2++) {
      own_a_0 = block_a[k2 * 20u + y];
      let r1 = block_b[k2 * 32u + x];
      sums_0 = fma(vec4<f32>(own_a_0.x), r1, sums_0);
      let r2 = block_b[k2 * 32u + x + 4u];
      sums_4 = fma(vec4<f32>(own_a_0.x), r2, sums_4);
      sums_8 = fma(vec4<f32>(own_a_0.y), r1, sums_8);
      sums_12 = fma(vec4<f32>(own_a_0.y), r2, sums_12);
      sums_16 = fma(vec4<f32>(own_a_0.z), r1, sums_16);
      sums_20 = fma(vec4<f32>(own_a_0.z), r2, sums_20);
      sums_24 = fma(vec4<f32>(own_a_0.w), r1, sums_24);
      sums_28 = fma(vec4<f32>(own_a_0.w), r2, sums_28);
      own_a_0 = block_a[k2 * 20u + y + 5u];
      let r3 = block_b[k2 * 32u + x + 8u];
      sums_0 = fma(vec4<f32>(own_a_0.x), r3, sums_0);
      let r4 = block_b[k2 * 32u + x + 12u];
      sums_4 = fma(vec4<f32>(own_a_0.x), r4, sums_4);
      sums_8 = fma(vec4<f32>(own_a_0.y), r3, sums_8);
      sums_12 = fma(vec4<f32>(own_a_0.y), r4, sums_12);
      sums_16 = fma(vec4<f32>(own_a_0.z), r3, sums_16);
      sums_20 = fma(vec4<f32>(own_a_0.z), r4, sums_20);
      sums_24 = fma(vec4<f32>(own_a_0.w), r3, sums_24);
      sums_28 = fma(vec4<f32>(own_a_0.w), r4, sums_28);
      own_a_0 = block_a[k2 * 20u + y + 10u];
      let r5 = block_b[k2 * 32u + x + 16u];
      sums_0 = fma(vec4<f32>(own_a_0.x), r5, sums_0);
      let r6 = block_b[k2 * 32u + x + 20u];
      sums_4 = fma(vec4<f32>(own_a_0.x), r6, sums_4);
      sums_8 = fma(vec4<f32>(own_a_0.y), r5, sums_8);
      sums_12 = fma(vec4<f32>(own_a_0.y), r6, sums_12);
      sums_16 = fma(vec4<f32>(own_a_0.z), r5, sums_16);
      sums_20 = fma(vec4<f32>(own_a_0.z), r6, sums_20);
      sums_24 = fma(vec4<f32>(own_a_0.w), r5, sums_24);
      sums_28 = fma(vec4<f32>(own_a_0.w), r6, sums_28);
      own_a_0 = block_a[k2 * 20u + y + 15u];
      let r7 = block_b[k2 * 32u + x + 24u];
      sums_0 = fma(vec4<f32>(own_a_0.x), r7, sums_0);
      let r8 = block_b[k2 * 32u + x + 28u];
      sums_4 = fma(vec4<f32>(own_a_0.x), r8, sums_4);
      sums_8 = fma(vec4<f32>(own_a_0.y), r7, sums_8);
      sums_12 = fma(vec4<f32>(own_a_0.y), r8, sums_12);
      sums_16 = fma(vec4<f32>(own_a_0.z), r7, sums_16);
      sums_20 = fma(vec4<f32>(own_a_0.z), r8, sums_20);
      sums_24 = fma(vec4<f32>(own_a_0.w), r7, sums_24);
      sums_28 = fma(vec4<f32>(own_a_0.w), r8, sums_28);
    }
  }
  if (panel * 16u + y * 4u < 18u) {
    if (column * 32u + x * 4u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u] = maximum_of_4((sums_0 + bias[column * 8u + x]), vec4<f32>(0.0f));
    }
    if (column * 32u + x * 4u + 16u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 4u] = maximum_of_4((sums_4 + bias[column * 8u + x + 4u]), vec4<f32>(0.0f));
    }
  }
  if (panel * 16u + y * 4u + 1u < 18u) {
    if (column * 32u + x * 4u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 9u] = maximum_of_4((sums_8 + bias[column * 8u + x]), vec4<f32>(0.0f));
    }
    if (column * 32u + x * 4u + 16u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 13u] = maximum_of_4((sums_12 + bias[column * 8u + x + 4u]), vec4<f32>(0.0f));
    }
  }
  if (panel * 16u + y * 4u + 2u < 18u) {
    if (column * 32u + x * 4u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 18u] = maximum_of_4((sums_16 + bias[column * 8u + x]), vec4<f32>(0.0f));
    }
    if (column * 32u + x * 4u + 16u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 22u] = maximum_of_4((sums_20 + bias[column * 8u + x + 4u]), vec4<f32>(0.0f));
    }
  }
  if (panel * 16u + y * 4u + 3u < 18u) {
    if (column * 32u + x * 4u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 27u] = maximum_of_4((sums_24 + bias[column * 8u + x]), vec4<f32>(0.0f));
    }
    if (column * 32u + x * 4u + 16u < 36u) {
      c[column * 8u + panel * 144u + x + y * 36u + 31u] = maximum_of_4((sums_28 + bias[column * 8u + x + 4u]), vec4<f32>(0.0f));
    }
  }
}
fn maximum_of_4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  let no_y = (bitcast<vec4<i32>>(y) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
