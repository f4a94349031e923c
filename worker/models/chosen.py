"""The model in use: made when it is first asked, and again when the session's option names another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyio import to_thread

from shared.paths import config_dir
from worker.models.choose import make_model

if TYPE_CHECKING:
    from shared.catalog import Catalog
    from worker.models.base import Model


class ChosenModel:
    """One model at a time."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._model: Model | None = None

    async def get(self, model_id: str, catalog: Catalog) -> Model:
        """The model of that id. Raises ModelError where it cannot be made."""
        if self._model is None or self._id != model_id:
            made = await to_thread.run_sync(
                make_model, model_id, catalog.offering(model_id), os.environ, config_dir()
            )
            await self.aclose()
            self._id, self._model = model_id, made
        return self._model

    async def aclose(self) -> None:
        """Close its connections."""
        if self._model is not None:
            await self._model.aclose()
            self._model = None
