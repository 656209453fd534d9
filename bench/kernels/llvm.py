"""The conventional path: the same schedule through TVM's default passes, LLVM and wasm-ld."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tvm
from tvm import ir, s_tir, tirx

from kernelzoo.domain.artifact import ABI_VERSION, Artifact, ArtifactManifest
from kernelzoo.domain.candidate import Candidate
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.matmul.wasm import scheduled

Node = Any  # TVM ships no types.

LINKER = "wasm-ld"
STACK_BYTES = 1 << 20
"""Accumulators and packed panels lie there, from address 0: the page leaves that much alone."""

TARGET = {
    "kind": "llvm",
    "mtriple": "wasm32-unknown-unknown-wasm",
    "mattr": ["+simd128"],
    "vector-width": 128,
}
_LINK = (
    *("--no-entry", "--export=main", "--import-memory", "--shared-memory", "--no-check-features"),
    *("--max-memory=4294967296", "--stack-first", "-z", f"stack-size={STACK_BYTES}"),
)
_PIPELINE = (
    s_tir.transform.CanonicalizeLoop(),
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerMatchBuffer(),
    s_tir.transform.StmtSimplify(),
    s_tir.transform.LowerOpaqueBlock(),
    tirx.transform.FlattenBuffer(),
    tirx.transform.NarrowDataType(32),
    s_tir.transform.LoopPartition(),
    tirx.transform.VectorizeLoop(True),
    tirx.transform.StorageRewrite(),
    s_tir.transform.HoistIfThenElse(),
    tirx.transform.UnrollLoop(),
    s_tir.transform.RenormalizeSplitPattern(),
    tirx.transform.StmtSimplify(),
    tirx.transform.RemoveNoOp(),
    s_tir.transform.RewriteUnsafeSelect(),
    tirx.transform.CommonSubexprElim(),
)
"""TVM 0.27's default pipeline without what is for GPUs, up to the packed calling convention."""


def linker_found() -> bool:
    return shutil.which(LINKER) is not None


def llvm_artifact(candidate: Candidate) -> Artifact:
    """For shapes that the register tiles divide. Its range is the whole: no slices."""
    config, extents = WasmMatmulConfig.of(candidate), Extents.of(candidate.workload)
    module = scheduled(extents, config)
    for lower in _PIPELINE:
        module = lower(module)
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=candidate.target,
        requires=candidate.requires,
        tensors=candidate.workload.tensors,
        scratch_bytes=0,
        range_extent=1,
    )
    return Artifact.of(_linked(_generated(_on_pointers(module["main"]))), manifest)


def _on_pointers(function: Node) -> Node:
    """Takes plain pointers, as a C function does, where TVM's own would unpack tensors."""
    kind = ir.PointerType(ir.PrimType("float32"))
    pointers = [tirx.Var(f"{buffer.name}_pointer", kind) for buffer in function.params]
    bound = zip(function.params, pointers, strict=True)
    declared = [tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in bound]
    return tirx.PrimFunc(pointers, tirx.SeqStmt([*declared, function.body]))


def _generated(function: Node) -> Node:
    target = tvm.target.Target(TARGET)
    attributes = {"target": target, "global_symbol": "main", "tirx.noalias": True}
    for name, value in attributes.items():
        function = function.with_attr(name, value)
    module = tirx.transform.LowerIntrin()(tvm.IRModule({"main": function}))
    return tvm.get_global_func("target.build.llvm")(module, target)


def _linked(library: Node) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        compiled, linked = Path(folder, "kernel.o"), Path(folder, "kernel.wasm")
        library.write_to_file(str(compiled))
        subprocess.run((LINKER, *_LINK, "-o", str(linked), str(compiled)), check=True)
        return linked.read_bytes()
