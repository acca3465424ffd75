"""numba's compiler as it compiles the kernels of this package; users' own may count from the end of an array, and may
need Python's objects."""

from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.untyped_passes import ReconstructSSA

from clickbandit.compiling.inference import RememberingInference
from clickbandit.compiling.linked import LinkedLowering
from clickbandit.compiling.shortcuts import Shortcuts
from clickbandit.compiling.unsigned_index import IndexFromStart

_NEEDLESS = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "NopythonRewrites",
    "DumpParforDiagnostics",
}
"""Passes for what kernels do not have, such as closures and expressions of whole arrays."""

_OURS = {NopythonTypeInference: RememberingInference, NativeLowering: LinkedLowering}


class Compiler(CompilerBase):
    """With indices that count from the start, and code that is only linked into what calls it."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(Shortcuts, ReconstructSSA)
        passes.add_pass_after(IndexFromStart, ReconstructSSA)
        passes.passes = [
            (_OURS.get(step, step), why) for step, why in passes.passes if step.__name__ not in _NEEDLESS
        ]
        passes.finalize()
        return [passes]
