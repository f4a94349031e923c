"""Makes the model for an id. The SDK is imported only when one of its models is chosen: it takes a second."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from shared.credentials import HOW_TO_SET, CredentialsError, find_credentials
from worker.models.base import ModelError
from worker.models.offline import OfflineModel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.catalog import Catalog, ModelEntry
    from worker.models.base import Model

_NO_AUTHORITIES: Final = "The certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({}): correct it."


def make_model(model_id: str, catalog: Catalog, environ: Mapping[str, str], config_dir: Path) -> Model:
    """The model of that id, listed or not. Blocks on imports and files: call it in a thread.

    Raises ModelError, with `auth` where credentials are missing; the session stays usable.
    """
    try:
        entry = catalog.entry(model_id)
    except ValueError as error:
        raise ModelError(f"There is no model {model_id!r:.100} ({error}): choose another.") from None
    if entry.provider == "offline":
        return OfflineModel()
    if entry.provider == "anthropic":
        return _anthropic(entry, environ, config_dir)
    return _cloud(entry, environ)


def _anthropic(entry: ModelEntry, environ: Mapping[str, str], config_dir: Path) -> Model:
    try:
        credentials = find_credentials(environ, config_dir)
    except CredentialsError as error:
        raise ModelError(f"Model {entry.id} cannot be asked: {error}.", auth=True) from None
    if credentials is None:
        raise ModelError(f"Model {entry.id} needs credentials: {HOW_TO_SET}.", auth=True)

    from httpx2 import InvalidURL

    from worker.models.anthropic import AnthropicModel, anthropic_client

    secrets = [secret for secret in (credentials.api_key, credentials.auth_token) if secret]
    # Gateways have keys of their own in these.
    secrets += [
        line.partition(":")[2].strip() for line in environ.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines()
    ]
    try:
        client = anthropic_client(credentials, _base_url(environ))
    except (ValueError, InvalidURL):
        raise ModelError(
            "ANTHROPIC_BASE_URL is not a URL of a server (https://…): correct it, or unset it."
        ) from None
    except OSError as error:
        raise ModelError(_NO_AUTHORITIES.format(error.strerror)) from None
    return AnthropicModel(client, entry, secrets=tuple(secrets))


def _base_url(environ: Mapping[str, str]) -> str | None:
    """Where the API is, or None for Anthropic's own. Raises ValueError for what is no address of a server."""
    given = environ.get("ANTHROPIC_BASE_URL", "").strip()
    if given and (urlsplit(given).scheme not in ("http", "https") or not urlsplit(given).hostname):
        raise ValueError(given)
    # Other kinds of clients want the version in it; the SDK brings its own.
    return given.rstrip("/").removesuffix("/v1") or None


def _cloud(entry: ModelEntry, environ: Mapping[str, str]) -> Model:
    module = {"bedrock": "botocore", "vertex": "google.auth"}[entry.provider]
    if not _installed(module):
        raise ModelError(
            f"Model {entry.id} needs a package that is not installed: add `anthropic[{entry.provider}]` "
            "to the environment of iac-code."
        )

    from anthropic import AnthropicError

    from worker.models.anthropic import AnthropicModel, transport

    try:
        client = cloud_client(entry.provider)(**transport())
    except OSError as error:
        raise ModelError(_NO_AUTHORITIES.format(error.strerror)) from None
    except (ValueError, AnthropicError) as error:  # no region, contradicting credentials
        raise ModelError(f"Model {entry.id} cannot be asked: {error}", auth=True) from None
    bearer = environ.get("AWS_BEARER_TOKEN_BEDROCK")
    return AnthropicModel(client, entry, secrets=(bearer,) if bearer else ())


def cloud_client(provider: str) -> type[Any]:
    """The SDK's client of a cloud. From its own package: the root would import all of the SDK for it."""
    if provider == "bedrock":
        from anthropic.lib.bedrock import AsyncAnthropicBedrock

        return AsyncAnthropicBedrock
    from anthropic.lib.vertex import AsyncAnthropicVertex

    return AsyncAnthropicVertex


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
