"""Calling the kernel of whatever click model some parameters belong to."""

import sys
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from clickbandit.compiling.kernel import interpreted


def kernel_of_params(name: str) -> Callable[..., Any]:
    """The function that calls the kernel `name` of the model whose parameters are its first argument.

    The kernel stands in the module that defines the type of the parameters: numba finds it when it compiles a
    call, Python when it runs one.
    """

    def call(params: Any, *rest: Any) -> Any:
        return interpreted(getattr(sys.modules[type(params).__module__], name))(params, *rest)

    @overload(call)
    def compiled_call(params: Any, *rest: Any) -> Any:
        function = getattr(sys.modules[params.instance_class.__module__], name)

        def implementation(params: Any, *rest: Any) -> Any:
            return function(params, *rest)

        return implementation

    return call
