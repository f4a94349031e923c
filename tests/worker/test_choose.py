"""Which model an id makes, and what a user is told when it cannot be made."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from shared import catalog
from shared.credentials import LOGIN_FILE, Credentials, save_login
from worker.models.anthropic import AnthropicModel
from worker.models.base import ModelError, ModelRequest
from worker.models.choose import make_model
from worker.models.offline import OfflineModel

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = catalog.load()


def test_offline_needs_nothing(tmp_path: Path) -> None:
    assert isinstance(make_model("offline", CATALOG, {}, tmp_path), OfflineModel)


def test_offline_does_not_import_the_sdk(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from shared import catalog\n"
        "from worker.models.choose import make_model\n"
        f"make_model('offline', catalog.load(), {{}}, Path({str(tmp_path)!r}))\n"
        "print('anthropic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("model_id", ["claude-sonnet-5-5", "some-model-of-a-gateway"])
def test_without_credentials_the_error_says_what_to_set(tmp_path: Path, model_id: str) -> None:
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY") as caught:
        make_model(model_id, CATALOG, {}, tmp_path)
    assert caught.value.auth
    assert model_id in str(caught.value)


def test_a_login_that_others_can_read_is_told(tmp_path: Path) -> None:
    save_login(tmp_path, Credentials(api_key="s3cret")).chmod(0o644)
    with pytest.raises(ModelError, match="chmod 600") as caught:
        make_model("claude-sonnet-5-5", CATALOG, {}, tmp_path)
    assert caught.value.auth
    assert LOGIN_FILE in str(caught.value)


@pytest.mark.anyio
async def test_credentials_and_address_come_from_the_given_environment(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/x"}
    made = make_model("claude-sonnet-5-5", CATALOG, environ, tmp_path)
    assert isinstance(made, AnthropicModel)
    client = made._client
    assert str(client.base_url).startswith("http://127.0.0.1:9/x")
    assert client.max_retries == 0
    assert client.auth_headers == {"Authorization": "Bearer t"}
    await made.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("address", ["no-scheme.example", "ftp://h", "http://h:port", "http://\x00"])
async def test_an_address_that_is_none_is_told(tmp_path: Path, address: str) -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": address}
    request = ModelRequest("m", "", [{"role": "user", "content": "x"}], [], 10)

    async def ask() -> None:
        async for item in make_model("claude-sonnet-5-5", CATALOG, environ, tmp_path).stream(request):
            raise AssertionError(f"it may not try again, but gave {item}")

    with pytest.raises(ModelError, match="ANTHROPIC_BASE_URL"):
        await ask()


def test_an_id_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="choose another"):
        make_model("a b\n", CATALOG, {"ANTHROPIC_API_KEY": "k"}, tmp_path)


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
def test_a_cloud_whose_package_is_missing_is_told(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.models.choose.find_spec", lambda _: None)
    with pytest.raises(ModelError, match=rf"anthropic\[{provider}\]"):
        make_model(f"{provider}/claude-sonnet-5-5", CATALOG, {}, tmp_path)


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
async def test_a_cloud_is_asked_through_the_sdks_own_client(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.models.choose.find_spec", lambda _: object())
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match="region"):
        make_model(f"{provider}/claude-sonnet-5-5", CATALOG, {}, tmp_path)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("CLOUD_ML_REGION", "europe-west1")
    made = make_model(f"{provider}/claude-sonnet-5-5", CATALOG, {}, tmp_path)
    assert isinstance(made, AnthropicModel)
    await made.aclose()


@pytest.mark.anyio
async def test_the_version_in_the_address_is_not_doubled(tmp_path: Path) -> None:
    for given in ("http://127.0.0.1:9/x/v1", "http://127.0.0.1:9/x/v1/", "http://127.0.0.1:9/x/"):
        environ = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": given}
        made = make_model("claude-sonnet-5-5", CATALOG, environ, tmp_path)
        assert isinstance(made, AnthropicModel)
        assert str(made._client.base_url) == "http://127.0.0.1:9/x/"
        await made.aclose()


@pytest.mark.anyio
async def test_what_a_gateway_is_told_in_headers_is_a_secret(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_CUSTOM_HEADERS": "x-key: s3cretkey\nx-team:blue-team"}
    made = make_model("claude-sonnet-5-5", CATALOG, environ, tmp_path)
    assert isinstance(made, AnthropicModel)
    assert made._asked.redact("key s3cretkey of blue-team is unknown") == "key … of … is unknown"
    await made.aclose()
