@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> first: u32;
var<workgroup> square: array<f32, 272>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let group = workgroup.x + first;
  let thread = invocation;
  let own = (thread / 16u);
  let lane = (thread % 16u);
  if (group * 16u + lane < 38u) {
    square[lane + own * 17u] = a[group * 16u + lane + own * 38u];
  }
  if (group * 16u + lane < 38u) {
    square[lane + own * 17u + 68u] = a[group * 16u + lane + own * 38u + 152u];
  }
  if (own + 8u < 11u && group * 16u + lane < 38u) {
    square[lane + own * 17u + 136u] = a[group * 16u + lane + own * 38u + 304u];
  }
  workgroupBarrier();
  if (lane < 11u) {
    c[group * 176u + lane + own * 11u] = square[lane * 17u + own];
  }
  if (group * 16u + own + 4u < 38u && lane < 11u) {
    c[group * 176u + lane + own * 11u + 44u] = square[lane * 17u + own + 4u];
  }
  if (group * 16u + own + 8u < 38u && lane < 11u) {
    c[group * 176u + lane + own * 11u + 88u] = square[lane * 17u + own + 8u];
  }
  if (group * 16u + own + 12u < 38u && lane < 11u) {
    c[group * 176u + lane + own * 11u + 132u] = square[lane * 17u + own + 12u];
  }
}
