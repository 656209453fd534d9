/** Tensors with their axes in another order. */

export interface Laid {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** Axis `i` of the answer is axis `order[i]` of the tensor. */
export function permuted({ shape, data }: Laid, order: readonly number[]): Laid {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((all, n) => all * n, 1));
  const extents = order.map((axis) => shape[axis] as number);
  const steps = order.map((axis) => strides[axis] as number);
  const result = new Float32Array(data.length);
  let at = 0;
  const walk = (axis: number, from: number): void => {
    if (axis === extents.length) {
      result[at++] = data[from] as number;
      return;
    }
    for (let i = 0; i < (extents[axis] as number); i++) {
      walk(axis + 1, from + i * (steps[axis] as number));
    }
  };
  walk(0, 0);
  return { shape: extents, data: result };
}
