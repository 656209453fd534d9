@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
@group(1) @binding(0) var<uniform> first: u32;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var pixel_0: vec4<f32>;
  var sums_0: vec4<f32>;
  var sums_4: vec4<f32>;
  let place = min(thread, 11u);
  let y = (place / 3u);
  let x = (place % 3u);
  sums_0 = vec4<f32>(0.0f);
  sums_4 = vec4<f32>(0.0f);
  if (i32(0u - y + 1u) < 1) {
    if (i32(0u - x * 2u + 1u) < 1) {
      pixel_0 = a[x * 2u + y * 5u - 6u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    let r1 = b[0u];
    sums_0 = fma(pixel_0, r1, sums_0);
    pixel_0 = a[x * 2u + y * 5u - 5u];
    sums_0 = fma(pixel_0, b[1u], sums_0);
    sums_4 = fma(pixel_0, r1, sums_4);
    if (x * 2u + 1u < 5u) {
      pixel_0 = a[x * 2u + y * 5u - 4u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    sums_0 = fma(pixel_0, b[2u], sums_0);
    sums_4 = fma(pixel_0, b[1u], sums_4);
    if (x * 2u + 2u < 5u) {
      pixel_0 = a[x * 2u + y * 5u - 3u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    sums_4 = fma(pixel_0, b[2u], sums_4);
  }
  if (i32(0u - x * 2u + 1u) < 1) {
    pixel_0 = a[x * 2u + y * 5u - 1u];
  }
  else {
    pixel_0 = vec4<f32>(0.0f);
  }
  let r2 = b[3u];
  sums_0 = fma(pixel_0, r2, sums_0);
  pixel_0 = a[x * 2u + y * 5u];
  sums_0 = fma(pixel_0, b[4u], sums_0);
  sums_4 = fma(pixel_0, r2, sums_4);
  if (x * 2u + 1u < 5u) {
    pixel_0 = a[x * 2u + y * 5u + 1u];
  }
  else {
    pixel_0 = vec4<f32>(0.0f);
  }
  sums_0 = fma(pixel_0, b[5u], sums_0);
  sums_4 = fma(pixel_0, b[4u], sums_4);
  if (x * 2u + 2u < 5u) {
    pixel_0 = a[x * 2u + y * 5u + 2u];
  }
  else {
    pixel_0 = vec4<f32>(0.0f);
  }
  sums_4 = fma(pixel_0, b[5u], sums_4);
  if (y + 1u < 4u) {
    if (i32(0u - x * 2u + 1u) < 1) {
      pixel_0 = a[x * 2u + y * 5u + 4u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    let r3 = b[6u];
    sums_0 = fma(pixel_0, r3, sums_0);
    pixel_0 = a[x * 2u + y * 5u + 5u];
    sums_0 = fma(pixel_0, b[7u], sums_0);
    sums_4 = fma(pixel_0, r3, sums_4);
    if (x * 2u + 1u < 5u) {
      pixel_0 = a[x * 2u + y * 5u + 6u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    sums_0 = fma(pixel_0, b[8u], sums_0);
    sums_4 = fma(pixel_0, b[7u], sums_4);
    if (x * 2u + 2u < 5u) {
      pixel_0 = a[x * 2u + y * 5u + 7u];
    }
    else {
      pixel_0 = vec4<f32>(0.0f);
    }
    sums_4 = fma(pixel_0, b[8u], sums_4);
  }
  if (thread < 12u) {
    c[x * 2u + y * 5u] = sums_0;
    if (x * 2u + 1u < 5u) {
      c[x * 2u + y * 5u + 1u] = sums_4;
    }
  }
}
