"""When a request is sent again and what a failure tells the user."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.models.failures import Asked, Failure, classify
from worker.models.retries import RetryPolicy, parse_retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Asked("claude-x", "api.example", 90, ("top-s3cret",))
REQUEST = httpx2.Request("POST", "https://api.example/v1/messages")


def failure(error: Exception) -> Failure:
    found = classify(error, ASKED)
    assert found is not None
    return found


def of_status(status: int, message: str = "why", headers: dict[str, str] | None = None) -> Failure:
    body = {"type": "error", "error": {"type": "x", "message": message}}
    response = httpx2.Response(status, request=REQUEST, headers=headers)
    return failure(anthropic.APIStatusError("text", response=response, body=body))


@given(st.integers(0, 4), st.floats(0, 0.999), st.floats(0, 500))
def test_the_delay_doubles_and_half_of_it_is_jitter(done: int, chance: float, waited: float) -> None:
    delay = RetryPolicy().delay(done, waited, None, chance)
    assert delay is not None
    assert 0.25 * 2**done <= delay <= 0.5 * 2**done


@given(st.floats(0, 500), st.floats(0, 0.999))
def test_retry_after_is_never_undercut(asked: float, chance: float) -> None:
    delay = RetryPolicy().delay(0, 0, asked, chance)
    assert delay is not None
    assert asked <= delay <= max(asked * 1.1, 0.5)


@given(st.integers(0, 4), st.floats(0, 0.999))
def test_a_server_that_asks_for_no_wait_does_not_switch_ours_off(done: int, chance: float) -> None:
    assert RetryPolicy().delay(done, 0, 0, chance) == RetryPolicy().delay(done, 0, None, chance)


def test_retries_are_bounded_in_number_and_in_time() -> None:
    policy = RetryPolicy(retries=2, longest_total=10)
    assert policy.delay(1, 0, None, 0) is not None
    assert policy.delay(2, 0, None, 0) is None
    assert policy.delay(0, 9.9, None, 0.9) is None
    assert policy.delay(0, 0, 3600, 0) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2020 00:00:30 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, NOW) == seconds


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_retried(status: int) -> None:
    found = of_status(status, headers={"retry-after": "3"})
    assert found.retry
    assert found.retry_after == 3


def test_a_service_that_says_do_not_retry_is_believed() -> None:
    assert not of_status(429, headers={"x-should-retry": "false"}).retry


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_what_will_not_pass_is_not_retried(status: int) -> None:
    assert not of_status(status).retry


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_name_what_to_set(status: int) -> None:
    found = of_status(status)
    assert found.auth
    for word in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "iac-code login"):
        assert word in found.sentence


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 3"),
        (400, "This request exceeds the maximum context length"),
        (413, "Request exceeds the maximum size"),
    ],
)
def test_a_prompt_that_is_too_long_is_known_as_such(status: int, message: str) -> None:
    assert of_status(status, message).too_long


def test_other_bad_requests_are_not_taken_for_too_long() -> None:
    found = of_status(400, "messages.3: text content blocks must be non-empty")
    assert not found.too_long
    assert "text content blocks must be non-empty" in found.sentence


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("messages.1.content.0: `thinking` blocks cannot be modified", True),
        ("thinking blocks are tied to the model that produced them", True),
        ("max_tokens must be greater than thinking.budget_tokens", False),
        ("messages.1.content.0.thinking.signature: Field required", False),
    ],
)
def test_thinking_that_the_service_does_not_take_back_is_known(message: str, refused: bool) -> None:
    assert of_status(400, message).thinking_refused is refused


@pytest.mark.parametrize(
    ("kind", "retry"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("rate_limit_error", True),
        ("some_new_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
    ],
)
def test_an_error_event_inside_a_stream_counts_by_its_type(kind: str, retry: bool) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "m"}}
    response = httpx2.Response(200, request=REQUEST)
    assert failure(anthropic.APIStatusError("text", response=response, body=body)).retry is retry


@pytest.mark.parametrize(
    "error",
    [
        httpx2.ConnectError("refused"),
        httpx2.ConnectTimeout("slow"),
        httpx2.ReadTimeout("silent"),
        httpx2.RemoteProtocolError("incomplete chunked read"),
        httpx2.ReadError("reset"),
        ValueError("no JSON"),
    ],
)
def test_transport_errors_are_retried_wherever_they_come_up(error: Exception) -> None:
    wrapped = anthropic.APIConnectionError(request=REQUEST)
    wrapped.__cause__ = error
    assert failure(error).retry
    assert failure(wrapped).retry


def test_a_silent_model_is_told_with_the_limit() -> None:
    assert "90 s" in failure(httpx2.ReadTimeout("x")).reason


def test_a_certificate_that_is_not_trusted_is_not_retried() -> None:
    error = httpx2.ConnectError("tls")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    found = failure(error)
    assert not found.retry
    assert "SSL_CERT_FILE" in found.sentence


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "key top-s3cret or sk-ant-api03-abcdef or Bearer abc.def is bad"}},
        {"error": "top-s3cret"},
        "<html>top-s3cret</html>",
        ["top-s3cret"],
        None,
    ],
)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_no_message_ever_shows_a_credential(body: Any, status: int) -> None:
    response = httpx2.Response(status, request=REQUEST)
    found = failure(anthropic.APIStatusError("text top-s3cret", response=response, body=body))
    for secret in ("top-s3cret", "sk-ant", "abc.def"):
        assert secret not in found.sentence + found.reason


def test_a_dummy_key_does_not_garble_messages() -> None:
    response = httpx2.Response(400, request=REQUEST)
    error = anthropic.APIStatusError("t", response=response, body={"error": {"message": "unknown key"}})
    found = classify(error, Asked("m", "h", 90, ("k",)))
    assert found is not None
    assert "unknown key" in found.sentence


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    found = failure(httpx2.LocalProtocolError("Illegal header value b'other-s3cret'"))
    assert not found.retry
    assert "other-s3cret" not in found.sentence


def test_a_bug_is_not_taken_for_a_failed_request() -> None:
    assert classify(KeyError("x"), ASKED) is None


def test_a_signer_of_a_cloud_that_fails_is_a_matter_of_credentials() -> None:
    signer_error = type("NoCredentialsError", (Exception,), {"__module__": "botocore.exceptions"})
    found = failure(signer_error("Unable to locate credentials"))
    assert found.auth
    assert "Unable to locate credentials" in found.sentence


def test_an_event_nested_without_end_is_a_garbled_reply() -> None:
    found = classify(RecursionError("maximum recursion depth exceeded"), ASKED)
    assert found is not None
    assert found.reason == "The reply was garbled."
