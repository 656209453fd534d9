@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read> block_scales: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> sums_shared0_0: array<vec4<f32>, 32>;
var<workgroup> staged: array<vec4<f32>, 16>;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  var dot_0: vec4<f32>;
  var sums_0: vec4<f32>;
  var sums_4: vec4<f32>;
  var weight_0: vec4<f32>;
  let own = (thread / 8u);
  let lane = (thread % 8u);
  let row0 = min((group * 8u + own * 2u), 12u);
  let row1 = min((group * 8u + own * 2u + 1u), 12u);
  sums_0 = vec4<f32>(0.0f);
  sums_4 = vec4<f32>(0.0f);
  for (var part = 0u; part < 2u; part++) {
    {
      let place = min(thread, 15u);
      let block = (place / 8u);
      let bit = (place % 8u);
      let among = (bit % 4u);
      if (thread < 16u) {
        staged[bit * 2u + block] = (vec4<f32>(a[bit + block * 32u + part * 64u], a[bit + block * 32u + part * 64u + 8u], a[bit + block * 32u + part * 64u + 16u], a[bit + block * 32u + part * 64u + 24u]) * vec4<f32>(bitcast<f32>(i32(0u - among * 33554432u + 1065353216u))));
      }
    }
    workgroupBarrier();
    if (lane < 2u) {
      let r1 = b[lane + part * 2u + row0 * 4u];
      weight_0 = (bitcast<vec4<f32>>(((r1 & vec4<i32>(15i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388616.0f));
      let r2 = staged[lane];
      dot_0 = (weight_0 * r2);
      weight_0 = (bitcast<vec4<f32>>(((r1 & vec4<i32>(240i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388736.0f));
      let r3 = staged[lane + 2u];
      dot_0 = fma(weight_0, r3, dot_0);
      weight_0 = (bitcast<vec4<f32>>(((r1 & vec4<i32>(3840i)) | vec4<i32>(1258291200i))) - vec4<f32>(8390656.0f));
      let r4 = staged[lane + 4u];
      dot_0 = fma(weight_0, r4, dot_0);
      weight_0 = (bitcast<vec4<f32>>(((r1 & vec4<i32>(61440i)) | vec4<i32>(1258291200i))) - vec4<f32>(8421376.0f));
      let r5 = staged[lane + 6u];
      dot_0 = fma(weight_0, r5, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r1 >> vec4<u32>(16u)) & vec4<i32>(15i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388616.0f));
      let r6 = staged[lane + 8u];
      dot_0 = fma(weight_0, r6, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r1 >> vec4<u32>(16u)) & vec4<i32>(240i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388736.0f));
      let r7 = staged[lane + 10u];
      dot_0 = fma(weight_0, r7, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r1 >> vec4<u32>(16u)) & vec4<i32>(3840i)) | vec4<i32>(1258291200i))) - vec4<f32>(8390656.0f));
      let r8 = staged[lane + 12u];
      dot_0 = fma(weight_0, r8, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r1 >> vec4<u32>(16u)) & vec4<i32>(61440i)) | vec4<i32>(1258291200i))) - vec4<f32>(8421376.0f));
      let r9 = staged[lane + 14u];
      dot_0 = fma(weight_0, r9, dot_0);
      sums_0 = fma(vec4<f32>(block_scales[lane + part * 2u + row0 * 4u]), dot_0, sums_0);
      let r10 = b[lane + part * 2u + row1 * 4u];
      weight_0 = (bitcast<vec4<f32>>(((r10 & vec4<i32>(15i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388616.0f));
      dot_0 = (weight_0 * r2);
      weight_0 = (bitcast<vec4<f32>>(((r10 & vec4<i32>(240i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388736.0f));
      dot_0 = fma(weight_0, r3, dot_0);
      weight_0 = (bitcast<vec4<f32>>(((r10 & vec4<i32>(3840i)) | vec4<i32>(1258291200i))) - vec4<f32>(8390656.0f));
      dot_0 = fma(weight_0, r4, dot_0);
      weight_0 = (bitcast<vec4<f32>>(((r10 & vec4<i32>(61440i)) | vec4<i32>(1258291200i))) - vec4<f32>(8421376.0f));
      dot_0 = fma(weight_0, r5, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r10 >> vec4<u32>(16u)) & vec4<i32>(15i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388616.0f));
      dot_0 = fma(weight_0, r6, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r10 >> vec4<u32>(16u)) & vec4<i32>(240i)) | vec4<i32>(1258291200i))) - vec4<f32>(8388736.0f));
      dot_0 = fma(weight_0, r7, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r10 >> vec4<u32>(16u)) & vec4<i32>(3840i)) | vec4<i32>(1258291200i))) - vec4<f32>(8390656.0f));
      dot_0 = fma(weight_0, r8, dot_0);
      weight_0 = (bitcast<vec4<f32>>((((r10 >> vec4<u32>(16u)) & vec4<i32>(61440i)) | vec4<i32>(1258291200i))) - vec4<f32>(8421376.0f));
      dot_0 = fma(weight_0, r9, dot_0);
      sums_4 = fma(vec4<f32>(block_scales[lane + part * 2u + row1 * 4u]), dot_0, sums_4);
    }
    workgroupBarrier();
  }
  sums_shared0_0[lane + own * 8u] = vec4<f32>(((sums_0.x + sums_0.y) + (sums_0.z + sums_0.w)), ((sums_4.x + sums_4.y) + (sums_4.z + sums_4.w)), 0.0f, 0.0f);
  workgroupBarrier();
  let sums_row0_0 = (((sums_shared0_0[own * 8u] + sums_shared0_0[own * 8u + 1u]) + (sums_shared0_0[own * 8u + 2u] + sums_shared0_0[own * 8u + 3u])) + ((sums_shared0_0[own * 8u + 4u] + sums_shared0_0[own * 8u + 5u]) + (sums_shared0_0[own * 8u + 6u] + sums_shared0_0[own * 8u + 7u])));
  if (lane < 1u && group * 8u + own * 2u < 13u) {
    c[row0] = (sums_row0_0.x + bias[row0]);
  }
  if (lane < 1u && group * 8u + own * 2u + 1u < 13u) {
    c[row1] = (sums_row0_0.y + bias[row1]);
  }
}
