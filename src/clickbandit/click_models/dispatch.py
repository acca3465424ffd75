"""Calling the kernel of whatever click model some parameters belong to."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from clickbandit.click_models.contract import OF_PARAMS
from clickbandit.compiling.kernel import interpreted


def kernel_of_params(name: str) -> Callable[..., Any]:
    """The function that calls the kernel `name` of the model whose parameters are its first argument.

    numba finds the kernel by the type of the parameters when it compiles a call, Python when it runs one.
    """

    def call(params: Any, *rest: Any) -> Any:
        return interpreted(getattr(OF_PARAMS[type(params)], name))(params, *rest)

    @overload(call)
    def compiled_call(params: Any, *rest: Any) -> Any:
        function = getattr(OF_PARAMS[params.instance_class], name)

        def implementation(params: Any, *rest: Any) -> Any:
            return function(params, *rest)

        return implementation

    return call
