"""A simulator behind an UM-Bridge server."""

from __future__ import annotations

from itertools import islice
from typing import Any


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
        self.set_up()
        takes = sum(self._sizes)
        if takes != len(x):
            raise UMBridgeError(f"the model {self.model!r} takes {takes} parameters, not {len(x)}")
        values = map(float, x)
        blocks = [list(islice(values, size)) for size in self._sizes]
        try:
            answer = self._client(blocks, self.config)
        except ValueError as error:  # it answers a page in HTML, or the word nan
            raise UMBridgeError(
                f"the server failed: its answer is not JSON, as where the model {self.model!r} "
                "raises an exception or returns NaN; the server's own output says more"
            ) from error
        except Exception as error:
            raise UMBridgeError(f"the server failed: {error}") from error
        return [float(value) for block in answer for value in block]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}
