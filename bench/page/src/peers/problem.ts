/** A workload as peers see it: named tensors with their data, and the right output. */
export interface PeerTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export interface Problem {
  /** As in the workload's key: `matmul`, `batch_matmul`. */
  readonly operator: string;
  readonly flops: number;
  readonly inputs: readonly PeerTensor[];
  /** The reference kernel's output. */
  readonly output: PeerTensor;
}
