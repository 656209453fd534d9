"""Times the products by NumPy's BLAS on one thread, for orientation.

`python -m bench.kernels.native KEY` runs in a process of its own, since OpenBLAS
reads its thread count once.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np

from kernelzoo.domain.workload import Workload

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
CALLS = 15


def native_samples_ns(key: str) -> list[float]:
    """Nanoseconds of single calls."""
    command = (sys.executable, "-m", "bench.kernels.native", key)
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True
    )
    return [float(sample) for sample in json.loads(done.stdout)]


def _measure(workload: Workload) -> list[float]:
    random = np.random.default_rng(1)
    a, b, c = (random.random(tensor.shape, np.float32) for tensor in workload.tensors)
    samples_ns: list[float] = []
    for _ in range(CALLS):
        start_ns = time.perf_counter_ns()
        np.matmul(a, b, out=c)
        samples_ns.append(float(time.perf_counter_ns() - start_ns))
    return samples_ns


if __name__ == "__main__":
    print(json.dumps(_measure(Workload.parse(sys.argv[1]))))
