"""A simulator behind an UM-Bridge server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from supac.simulators.jacobian_error import JacobianError

FloatArray = npt.NDArray[np.float64]


class UMBridgeError(RuntimeError):
    """The server could not be reached, or has no such model."""


class UMBridge:
    """Call a model of an UM-Bridge server: all its outputs, one after the other.

    Parameters
    ----------
    url
        Such as "http://localhost:4242".
    model
        The name of the model there.
    config
        Settings of the model beside the parameters.

    """

    def __init__(self, url: str, model: str = "forward", config: dict[str, Any] | None = None):
        self.url, self.model, self.config = url, model, dict(config or {})
        self._client: Any = None
        self.__qualname__ = f"UMBridge({url}, {model})"

    def set_up(self) -> None:
        """Connect to the server, unless that was done."""
        if self._client is not None:
            return
        try:
            import umbridge  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("UMBridge needs umbridge: pip install 'supac[umbridge]'") from error
        try:
            models = umbridge.supported_models(self.url)
        except Exception as error:
            raise UMBridgeError(
                f"no UM-Bridge server answers at {self.url}: {type(error).__name__}"
            ) from error
        if self.model not in models:
            raise UMBridgeError(
                f"the server at {self.url} has no model {self.model!r}, but {', '.join(models)}"
            )
        try:
            client = umbridge.HTTPModel(self.url, self.model)
            self._sizes = client.get_input_sizes(self.config)
        except Exception as error:
            raise UMBridgeError(
                f"the server at {self.url} does not say what {self.model!r} takes: "
                f"{type(error).__name__}: {error}"
            ) from error
        self._client = client

    def __call__(self, x: Any) -> list[float]:
        """Return all outputs of the model at one point (dim,)."""
        answer = self._asked(self._client_for(x), self._blocks(x), self.config)
        return [float(value) for block in answer for value in block]

    def jacobian(self, x: Any) -> FloatArray:
        """Return the Jacobian of all outputs at one point: (dim,) → (outputs, dim).

        The server computes it direction by direction: J·v of each parameter, or vᵀ·J of each
        output if that takes fewer calls, or is all that it can.
        """
        client, blocks = self._client_for(x), self._blocks(x)
        outputs = client.get_output_sizes(self.config)
        forward, backward = client.supports_apply_jacobian(), client.supports_gradient()
        if not (forward or backward):
            raise JacobianError(
                f"the model {self.model!r} of the server at {self.url} has no derivatives: it "
                "supports neither apply_jacobian nor gradient"
            )
        along = len(outputs) * sum(self._sizes) <= len(self._sizes) * sum(outputs)
        ask = client.apply_jacobian if forward and (along or not backward) else client.gradient
        by_column = ask == client.apply_jacobian
        found = []
        for o, rows in enumerate(outputs):
            parts = []
            for i, columns in enumerate(self._sizes):
                units = np.eye(columns if by_column else rows).tolist()
                every = [self._asked(ask, o, i, blocks, unit, self.config) for unit in units]
                block = np.reshape(every, (len(units), rows if by_column else columns))
                parts.append(block.T if by_column else block)
            found.append(np.concatenate(parts, axis=1))
        return np.concatenate(found)

    def _client_for(self, x: Any) -> Any:
        """Connect, and check that the model takes as many parameters."""
        self.set_up()
        takes = sum(self._sizes)
        if takes != len(x):
            raise UMBridgeError(f"the model {self.model!r} takes {takes} parameters, not {len(x)}")
        return self._client

    def _blocks(self, x: Any) -> list[list[float]]:
        values = map(float, x)
        return [list(islice(values, size)) for size in self._sizes]

    def _asked(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Call the server; UMBridgeError if it fails."""
        try:
            return ask(*arguments)
        except ValueError as error:  # it answers a page in HTML, or the word nan
            raise UMBridgeError(
                f"the server failed: its answer is not JSON, as where the model {self.model!r} "
                "raises an exception or returns NaN; the server's own output says more"
            ) from error
        except Exception as error:
            raise UMBridgeError(f"the server failed: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}
