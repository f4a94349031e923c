"""The models that a session can use: `models.json` beside this file, and what the user's settings add.

Imported by the front, so it knows no SDK. An id that is listed nowhere is still usable: it is taken as
a model of the Anthropic API or of a server that is compatible with it (`ANTHROPIC_BASE_URL`), or, with
the prefix `bedrock/` or `vertex/`, of that cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from shared.credentials import has_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OFFLINE: Final = "offline"
MODEL_VARIABLE: Final = "IAC_CODE_MODEL"

Provider = Literal["anthropic", "bedrock", "vertex", "offline"]


class Price(BaseModel):
    """US dollars for a million tokens. Cache writes are those that live five minutes.

    A request whose prompt is longer than `long_above` tokens costs `long_factor` times as much.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float = Field(ge=0)
    cache_write: float = Field(ge=0)
    long_above: int | None = None
    long_factor: float = 1

    def cost(self, prompt: int, output: int, cache_read: int = 0, cache_write: int = 0) -> float:
        """US dollars of one request. `prompt` counts all input tokens, the cached ones too."""
        plain = max(prompt - cache_read - cache_write, 0)
        total = (
            plain * self.input
            + output * self.output
            + cache_read * self.cache_read
            + cache_write * self.cache_write
        ) / 1_000_000
        return total * self.long_factor if self.long_above is not None and prompt > self.long_above else total


class ModelEntry(BaseModel):
    """One model. `window` and `max_output` are tokens.

    `thinking_form` is what its API takes: `adaptive` (with an effort) or, on models before that,
    `budget` (a number of tokens). `thinking_off` is how an adaptive model is told not to think
    up front: `never` cannot be told, `omit` does not think unless asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=256, pattern=r"^[!-~]+$")
    name: str
    provider: Provider = "anthropic"
    window: int = Field(default=200_000, gt=0)
    max_output: int = Field(default=32_000, gt=0)
    thinking: bool = False
    thinking_form: Literal["adaptive", "budget"] = "adaptive"
    thinking_off: Literal["disabled", "between_tools", "omit", "never"] = "omit"
    price: Price | None = None

    @property
    def wire_id(self) -> str:
        """The id that the provider knows the model by."""
        return self.id.removeprefix(f"{self.provider}/")


class CatalogError(ValueError):
    """The settings' list of models cannot be used; `str()` names the entry and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All models that are offered, in the order in which they are shown."""

    entries: tuple[ModelEntry, ...]
    default: str
    """The model for a user with credentials who has not chosen one."""

    def __contains__(self, model_id: str) -> bool:
        return any(entry.id == model_id for entry in self.entries)

    def entry(self, model_id: str) -> ModelEntry:
        """The entry of that id; one made for it where it is not listed.

        A relative of a listed model (a dated id, a cloud's id for it) has that model's limits.
        Raises CatalogError for what cannot be an id.
        """
        for entry in self.entries:
            if entry.id == model_id:
                return entry
        provider = model_id.partition("/")[0] if "/" in model_id else "anthropic"
        fields: dict[str, Any] = {"id": model_id, "name": model_id}
        if provider in get_args(Provider):
            fields["provider"] = provider
        relatives = [entry for entry in self.entries if entry.provider != OFFLINE and entry.id in model_id]
        if relatives:
            relative = max(relatives, key=lambda entry: len(entry.id))
            fields |= relative.model_dump(include={"window", "max_output", "thinking", "thinking_form"})
            fields["thinking_off"] = relative.thinking_off
        return _validated(fields)

    def offering(self, model_id: str) -> Catalog:
        """This catalog with that id in it, at the end if it was not listed."""
        if model_id in self:
            return self
        return Catalog((*self.entries, self.entry(model_id)), self.default)


def load(settings_models: Sequence[Mapping[str, Any]] | None = None, chosen: str | None = None) -> Catalog:
    """The built-in models, changed and extended by the settings, and `chosen`, whatever id it is.

    An entry of the settings with a listed id replaces the fields that it names. Raises CatalogError.
    """
    catalog = _built_in()
    entries = {entry.id: entry for entry in catalog.entries}
    for given in settings_models or ():
        if not isinstance(given, dict) or not isinstance(model_id := given.get("id"), str):
            raise CatalogError(f"the setting `models` is a list of objects with an `id`, not {given!r:.100}")
        entries[model_id] = _validated({**catalog.entry(model_id).model_dump(), **given})
    catalog = Catalog(tuple(entries.values()), catalog.default)
    return catalog.offering(chosen) if chosen else catalog


def default_model(environ: Mapping[str, str], config_dir: Path, configured: str | None = None) -> str:
    """The model of a new session: IAC_CODE_MODEL, else the settings' `model`, else by credentials."""
    if chosen := environ.get(MODEL_VARIABLE, "").strip() or configured:
        return chosen
    return _built_in().default if has_credentials(environ, config_dir) else OFFLINE


@cache
def _built_in() -> Catalog:
    data = from_json(Path(__file__).with_name("models.json").read_bytes())
    return Catalog(tuple(ModelEntry.model_validate(fields) for fields in data["models"]), data["default"])


def _validated(fields: dict[str, Any]) -> ModelEntry:
    try:
        return ModelEntry.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CatalogError(f"model {fields['id']!r:.100}: `{where}`: {first['msg']}") from None
