"""A session's options as clients see them: `modes`, `models` and `configOptions`, always in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.errors import INVALID_PARAMS, RequestError

if TYPE_CHECKING:
    from shared.catalog import Catalog

MODES: Final = {
    "default": ("Ask", "Asks before it changes or runs anything"),
    "accept_edits": ("Accept edits", "Edits files in the session's folders unasked; asks for the rest"),
    "plan": ("Plan", "Only reads and plans; changes and runs nothing"),
    "bypass_permissions": ("Bypass permissions", "Asks only for what leaves the session's folders"),
}
THINKING: Final = {"off": "Off", "low": "Low", "medium": "Medium", "high": "High"}
OPTION_IDS: Final = ("mode", "model", "thinking")


def defaults(model: str) -> dict[str, str]:
    """The options of a new session."""
    return {"mode": "default", "model": model, "thinking": "off"}


def validated(catalog: Catalog, option: str, value: Any) -> str:
    """The new value of an option. Raises -32602 that names what is allowed."""
    allowed = {
        "mode": list(MODES),
        "model": [entry.id for entry in catalog.entries],
        "thinking": list(THINKING),
    }
    if option not in allowed:
        details = f"There is no option {option!r}. The options are: {', '.join(allowed)}."
        raise RequestError(INVALID_PARAMS, details, configId=f"one of {', '.join(allowed)}")
    if not isinstance(value, str) or value not in allowed[option]:
        details = f"{option} cannot be {value!r:.100}. It can be: {', '.join(allowed[option])}."
        raise RequestError(INVALID_PARAMS, details, value=f"one of {', '.join(allowed[option])}")
    return value


def modes(options: dict[str, str]) -> dict[str, Any]:
    """ACP's SessionModeState."""
    return {
        "currentModeId": options["mode"],
        "availableModes": [
            {"id": id_, "name": name, "description": description}
            for id_, (name, description) in MODES.items()
        ],
    }


def models(catalog: Catalog, options: dict[str, str]) -> dict[str, Any]:
    """ACP's SessionModelState."""
    return {
        "currentModelId": options["model"],
        "availableModels": [
            {"modelId": entry.id, "name": entry.name} for entry in catalog.offering(options["model"]).entries
        ],
    }


def config_options(catalog: Catalog, options: dict[str, str]) -> list[dict[str, Any]]:
    """The complete list of ACP's SessionConfigOption."""
    offered = catalog.offering(options["model"]).entries
    return [
        _select("mode", "Mode", "mode", options, {id_: name for id_, (name, _) in MODES.items()}),
        _select("model", "Model", "model", options, {entry.id: entry.name for entry in offered}),
        _select("thinking", "Thinking", "thought_level", options, THINKING),
    ]


def _select(
    id_: str, name: str, category: str, options: dict[str, str], values: dict[str, str]
) -> dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": options[id_],
        "options": [{"value": value, "name": label} for value, label in values.items()],
    }


def session_fields(catalog: Catalog, options: dict[str, str], *, bare: bool) -> dict[str, Any]:
    """What new, load, resume and fork answer. `bare`: the standard alone, which has no `models`."""
    fields = {"modes": modes(options), "configOptions": config_options(catalog, options)}
    return fields if bare else {**fields, "models": models(catalog, options)}


def complete(options: dict[str, str], model: str) -> dict[str, str]:
    """Stored options, with defaults for what an older version did not store or what is no value any more."""
    whole = {**defaults(model), **{k: v for k, v in options.items() if k in OPTION_IDS}}
    if whole["mode"] not in MODES:
        whole["mode"] = "default"
    if whole["thinking"] not in THINKING:
        whole["thinking"] = "off"
    return whole
