@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> block_b: array<vec4<f32>, 32>;
var<workgroup> block_a: array<vec4<f32>, 32>;
@compute @workgroup_size(16)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var next_a_0: vec4<f32>;
  var next_a_4: vec4<f32>;
  var next_b_0: vec4<f32>;
  var next_b_4: vec4<f32>;
  var own_a_0: vec4<f32>;
  var own_a_12: vec4<f32>;
  var own_a_4: vec4<f32>;
  var own_a_8: vec4<f32>;
  var sums_0: vec4<f32>;
  var sums_12: vec4<f32>;
  var sums_4: vec4<f32>;
  var sums_8: vec4<f32>;
  let y = (thread / 4u);
  let x = (thread % 4u);
  let a0_row = (thread / 2u);
  let a0_step = (thread % 2u);
  let a0_at_y = ((a0_row + group * 16u) / 6u);
  let a0_at_x = ((a0_row + group * 16u) % 6u);
  let a1_at = min((a0_row + group * 16u + 8u), 29u);
  let a1_at_y = (a1_at / 6u);
  let a1_at_x = (a1_at % 6u);
  let b0_row = (thread / 4u);
  let b0_step = (thread % 4u);
  let b0_at = min(b0_step, 2u);
  let b1_at = min(b0_step, 2u);
  sums_0 = vec4<f32>(0.0f);
  sums_4 = vec4<f32>(0.0f);
  sums_8 = vec4<f32>(0.0f);
  sums_12 = vec4<f32>(0.0f);
  {
    let a_tap0_r = ((0u) / 3u);
    if (i32(0u - a_tap0_r - a0_at_y + 1u) < 1 && i32(0u - a0_at_x + 1u) < 1) {
      next_a_0 = a[a_tap0_r * 12u + a0_at_x * 2u + a0_at_y * 12u + a0_step - 14u];
    }
    else {
      next_a_0 = vec4<f32>(0.0f);
    }
  }
  {
    let a_tap0_r = ((0u) / 3u);
    if (i32(0u - a_tap0_r - a1_at_y + 1u) < 1 && i32(0u - a1_at_x + 1u) < 1) {
      next_a_4 = a[a_tap0_r * 12u + a0_step + a1_at_x * 2u + a1_at_y * 12u - 14u];
    }
    else {
      next_a_4 = vec4<f32>(0.0f);
    }
  }
  next_b_0 = b[b0_at + b0_row * 3u];
  next_b_4 = b[b0_row * 3u + b1_at + 12u];
  for (var block = 0u; block < 9u; block++) {
    workgroupBarrier();
    block_a[a0_row * 2u + a0_step] = next_a_0;
    block_a[a0_row * 2u + a0_step + 16u] = next_a_4;
    block_b[b0_row * 4u + b0_step] = next_b_0;
    block_b[b0_row * 4u + b0_step + 16u] = next_b_4;
    workgroupBarrier();
    if (block < 8u) {
      {
        let a_tap0_r = ((block + 1u) / 3u);
        let a_tap0_q = ((block + 1u) % 3u);
        if (i32(0u - a_tap0_r - a0_at_y + 1u) < 1 && i32(a_tap0_q + a0_at_x - 1u) < 6 && i32(0u - a_tap0_q - a0_at_x + 1u) < 1) {
          next_a_0 = a[a_tap0_q * 2u + a_tap0_r * 12u + a0_at_x * 2u + a0_at_y * 12u + a0_step - 14u];
        }
        else {
          next_a_0 = vec4<f32>(0.0f);
        }
      }
      {
        let a_tap0_r = ((block + 1u) / 3u);
        let a_tap0_q = ((block + 1u) % 3u);
        if (i32(a_tap0_r + a1_at_y - 1u) < 5 && i32(0u - a_tap0_r - a1_at_y + 1u) < 1 && i32(a_tap0_q + a1_at_x - 1u) < 6 && i32(0u - a_tap0_q - a1_at_x + 1u) < 1) {
          next_a_4 = a[a_tap0_q * 2u + a_tap0_r * 12u + a0_step + a1_at_x * 2u + a1_at_y * 12u - 14u];
        }
        else {
          next_a_4 = vec4<f32>(0.0f);
        }
      }
      next_b_0 = b[b0_at + b0_row * 3u + block * 24u + 24u];
      next_b_4 = b[b0_row * 3u + b1_at + block * 24u + 36u];
    }
    own_a_0 = block_a[y * 2u];
    own_a_4 = block_a[y * 2u + 8u];
    own_a_8 = block_a[y * 2u + 16u];
    own_a_12 = block_a[y * 2u + 24u];
    let r1 = block_b[x];
    sums_0 = fma(vec4<f32>(own_a_0.x), r1, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.x), r1, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.x), r1, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.x), r1, sums_12);
    let r2 = block_b[x + 4u];
    sums_0 = fma(vec4<f32>(own_a_0.y), r2, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.y), r2, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.y), r2, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.y), r2, sums_12);
    let r3 = block_b[x + 8u];
    sums_0 = fma(vec4<f32>(own_a_0.z), r3, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.z), r3, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.z), r3, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.z), r3, sums_12);
    let r4 = block_b[x + 12u];
    sums_0 = fma(vec4<f32>(own_a_0.w), r4, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.w), r4, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.w), r4, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.w), r4, sums_12);
    own_a_0 = block_a[y * 2u + 1u];
    own_a_4 = block_a[y * 2u + 9u];
    own_a_8 = block_a[y * 2u + 17u];
    own_a_12 = block_a[y * 2u + 25u];
    let r5 = block_b[x + 16u];
    sums_0 = fma(vec4<f32>(own_a_0.x), r5, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.x), r5, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.x), r5, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.x), r5, sums_12);
    let r6 = block_b[x + 20u];
    sums_0 = fma(vec4<f32>(own_a_0.y), r6, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.y), r6, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.y), r6, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.y), r6, sums_12);
    let r7 = block_b[x + 24u];
    sums_0 = fma(vec4<f32>(own_a_0.z), r7, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.z), r7, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.z), r7, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.z), r7, sums_12);
    let r8 = block_b[x + 28u];
    sums_0 = fma(vec4<f32>(own_a_0.w), r8, sums_0);
    sums_4 = fma(vec4<f32>(own_a_4.w), r8, sums_4);
    sums_8 = fma(vec4<f32>(own_a_8.w), r8, sums_8);
    sums_12 = fma(vec4<f32>(own_a_12.w), r8, sums_12);
  }
  if (x * 4u < 12u) {
    c[group * 48u + x + y * 3u] = maximum_of_4((sums_0 + bias[x]), vec4<f32>(0.0f));
  }
  if (x * 4u < 12u) {
    c[group * 48u + x + y * 3u + 12u] = maximum_of_4((sums_4 + bias[x]), vec4<f32>(0.0f));
  }
  if (x * 4u < 12u) {
    c[group * 48u + x + y * 3u + 24u] = maximum_of_4((sums_8 + bias[x]), vec4<f32>(0.0f));
  }
  if (group * 16u + y + 12u < 30u) {
    if (x * 4u < 12u) {
      c[group * 48u + x + y * 3u + 36u] = maximum_of_4((sums_12 + bias[x]), vec4<f32>(0.0f));
    }
  }
}
fn maximum_of_4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let no_x = (bitcast<vec4<i32>>(x) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  let no_y = (bitcast<vec4<i32>>(y) & vec4<i32>(0x7fffffff)) > vec4<i32>(0x7f800000);
  return select(select(max(x, y), y, no_y), x, no_x);
}
