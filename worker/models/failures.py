"""What an exception of a model request means: whether to try again, and what to tell the user.

Pure. No message ever holds a credential: what a server or a library says is quoted only redacted, and
addresses are named by host alone (a base URL may carry a password).
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import anthropic
import httpx2

from shared.credentials import HOW_TO_SET
from worker.models.retries import parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Mapping

_RETRIED_STATUS: Final = frozenset({408, 409, 425, 429})  # and all from 500 on
_STATUS_OF_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG: Final = re.compile(
    r"(prompt|input|request) is too long|exceeds? (the )?(maximum )?context"
    r"|context.?(window|length|limit|size)|model token limit"
    r"|input length should be|\b(prompt|input) exceeds? (the )?max(imum)? length",
    re.IGNORECASE,
)
"""In the words of the service itself, and of servers that are compatible with it (llama.cpp, Kimi, Qwen)."""
_TOO_LONG_STATUS: Final = (400, 413, 422)
"""With one of these words; 413 without."""
_OUT_OF_CONTEXT: Final = re.compile(r"context size has been exceeded|exceeds the available context size")
"""llama.cpp says so with a 500."""
_THINKING_REFUSED: Final = re.compile(r"\bthinking`? blocks?\b", re.IGNORECASE)
_THINKING_REASON: Final = re.compile(r"signature|modif|model|conversation|account", re.IGNORECASE)
_SHORTEST_SECRET: Final = 6  # a dummy key of a local server ("x") occurs in any text
_SECRET: Final = re.compile(r"\bsk-[\w-]{6,}|(?i:\bbearer\s+)\S+")


@dataclass(frozen=True, slots=True)
class Failure:
    """`reason` is a sentence for a retry notice; `sentence` (without its full stop) is what a user is told
    when there is no reply.

    `retry_after` is in seconds. `thinking_refused`: the service does not take back the thinking blocks
    of the history (made for another model, account or conversation); the request works without them.
    """

    reason: str
    sentence: str
    retry: bool
    retry_after: float | None = None
    auth: bool = False
    too_long: bool = False
    thinking_refused: bool = False


CUT: Final = Failure(
    "The connection was cut in mid-reply.",
    "The model's reply was cut off in the middle: send the prompt again",
    retry=True,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Of whom a request was made, for messages. `silence` is the read time-out in seconds."""

    model: str
    host: str
    silence: float
    secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """One short line without a credential."""
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "…")
        return " ".join(_SECRET.sub("…", text).split())[:300].rstrip(". ")


def no_reply(headers: Mapping[str, str], asked: Asked) -> Failure:
    """Of an answer without any event, though its status was good: a login page of a network, for example."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if kind == "text/event-stream":
        return CUT
    return Failure(
        "The answer was no reply.",
        f"What {asked.host} answered is no reply of the Messages API but {asked.redact(kind) or 'nothing'}: "
        "check the network and ANTHROPIC_BASE_URL",
        retry=False,
    )


def classify(error: Exception, asked: Asked) -> Failure | None:
    """The failure that `error` stands for; None for an exception that is a bug, not a failed request."""
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, asked)
    if isinstance(error, anthropic.APIConnectionError):
        cause = error.__cause__
        return _of_transport(cause if isinstance(cause, Exception) else error, asked)
    if isinstance(error, (httpx2.HTTPError, httpx2.StreamError)):
        return _of_transport(error, asked)
    if isinstance(error, (ValueError, RecursionError)):
        # The SDK decodes each event's JSON and UTF-8; it lets the decoder's own error through.
        return Failure(
            "The reply was garbled.",
            f"What {asked.host} answered is no reply of the Messages API: check ANTHROPIC_BASE_URL",
            retry=True,
        )
    if isinstance(error, anthropic.AnthropicError) or type(error).__module__.partition(".")[0] in _SIGNERS:
        return Failure(
            "The request could not be signed.",
            f"Model {asked.model} cannot be asked: {asked.redact(str(error)) or type(error).__name__}",
            retry=False,
            auth=True,
        )
    return None


_SIGNERS: Final = frozenset({"botocore", "boto3", "google"})


def _of_status(error: anthropic.APIStatusError, asked: Asked) -> Failure:
    status = error.status_code
    if status < 400:  # an error event inside a stream whose status was 200
        status = _STATUS_OF_TYPE.get(error.type or "", 500)
    said = asked.redact(_message(error.body) or error.message)
    headers = error.response.headers
    too_long = (
        status == 413
        or (status in _TOO_LONG_STATUS and bool(_TOO_LONG.search(said)))
        or (status == 500 and bool(_OUT_OF_CONTEXT.search(said)))
    )
    if (status in _RETRIED_STATUS or status >= 500) and not too_long:
        what = {429: "is limiting the rate", 529: "is overloaded"}.get(status, "failed")
        return Failure(
            f"The model service {what} ({status}).",
            f"The model service {what} ({status}: {said}): wait a little, then send the prompt again",
            retry=headers.get("x-should-retry") != "false",
            retry_after=parse_retry_after(headers, datetime.now(UTC)),
        )
    return Failure(
        f"The model service refused the request ({status}).",
        _refusal(status, said, asked),
        retry=False,
        auth=status in (401, 403),
        too_long=too_long,
        thinking_refused=status == 400
        and bool(_THINKING_REFUSED.search(said))
        and bool(_THINKING_REASON.search(said)),
    )


def _refusal(status: int, said: str, asked: Asked) -> str:
    if status == 401:
        return f"The model service did not accept the credentials (401: {said}): {HOW_TO_SET}"
    if status == 403:
        return (
            f"The credentials may not use model {asked.model} (403: {said}): choose another, or {HOW_TO_SET}"
        )
    if status == 404:
        # The service names the model; a server that is another one, or is asked below another path, does not.
        if asked.model in said:
            perhaps, correct = "", ""
        else:
            perhaps, correct = ", or no Messages API at ANTHROPIC_BASE_URL", ", or correct the address"
        return (
            f"{asked.host} has no model {asked.model}{perhaps} (404: {said}): choose another with the option "
            f"`model`{correct}"
        )
    if status == 413 or _TOO_LONG.search(said):
        return f"The conversation is too long for the model ({status}: {said}): shorten it with /compact"
    return f"The model service refused the request ({status}: {said})"


def _message(body: Any) -> str | None:
    """The `error.message` of a body, read with care: proxies answer with bodies of any shape."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else None


def _of_transport(error: Exception, asked: Asked) -> Failure:
    advice = "check the network and ANTHROPIC_BASE_URL"
    if isinstance(error, httpx2.ReadTimeout):
        silence = f"The model sent nothing for {asked.silence:g} s"
        return Failure(f"{silence}.", f"{silence}: send the prompt again", retry=True)
    if isinstance(error, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.StreamError)):
        return CUT
    if isinstance(error, (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, UnicodeError)):
        # Its text may quote a header's value.
        return Failure(
            "The request could not be sent.",
            f"No request can be sent to {asked.host}: check ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS",
            retry=False,
        )
    if isinstance(error, httpx2.TimeoutException):
        why = "timed out"
    elif isinstance(_root(error), ssl.SSLCertVerificationError):
        return Failure(
            f"The certificate of {asked.host} is not trusted.",
            f"The certificate of {asked.host} is not trusted: name its authority in SSL_CERT_FILE",
            retry=False,
        )
    else:
        why = asked.redact(str(_root(error))) or type(error).__name__
    return Failure(
        f"There is no connection to {asked.host} ({why}).",
        f"There is no connection to {asked.host} ({why}): {advice}",
        retry=True,
    )


def _root(error: BaseException) -> BaseException:
    seen = {id(error)}
    while (deeper := error.__cause__ or error.__context__) is not None and id(deeper) not in seen:
        seen.add(id(deeper))
        error = deeper
    return error
