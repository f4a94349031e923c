"""The SDK behaves as if its packages were imported whole, and is not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def run(script: str, told: Any = None) -> Any:
    """What the script prints in a fresh interpreter that is `told` something, both as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


NAMES = """
import json, sys, types
import anthropic, anthropic.types, anthropic.types.beta, anthropic.resources
def known(value):
    return [getattr(value, "__qualname__", ""), type(value).__name__]
"""
EAGER = """
print(json.dumps({
    package.__name__: {
        name: known(value)
        for name, value in vars(package).items()
        if name[0] != "_" and name != "annotations" and not isinstance(value, types.ModuleType)
    }
    for package in (anthropic.types, anthropic.resources, anthropic.types.beta, anthropic)
}))
"""
LAZY = """
print(json.dumps({
    package: {name: known(getattr(sys.modules[package], name)) for name in names}
    for package, names in json.load(sys.stdin).items()
}))
"""


def test_every_name_of_its_public_packages_is_what_a_whole_import_makes_of_it() -> None:
    eager = run(NAMES + EAGER)
    assert sum(map(len, eager.values())) > 1000
    assert run("import worker.models" + NAMES + LAZY, eager) == eager


def test_what_no_request_needs_is_not_imported() -> None:
    loaded = run("""
import json, sys
from worker.warm import warm_sdk
warm_sdk()
print(json.dumps([*sys.modules]))
""")
    assert "anthropic._client" in loaded
    assert not [name for name in loaded if name.startswith("anthropic.resources")]
    assert len([name for name in loaded if name.startswith("anthropic.")]) < 500


def test_what_the_sdk_does_with_a_traced_request_is_imported_then() -> None:
    assert run("""
import json, sys, worker.models, anthropic
from opentelemetry.trace import INVALID_SPAN
import anthropic._base_client as core
traced = "anthropic.lib._tracing._api_call"
before = traced in sys.modules
core.finish_api_call_span(None, INVALID_SPAN, None)
print(json.dumps([before, traced in sys.modules]))
""") == [False, True]


def test_a_name_that_the_sdk_has_only_from_a_star_import_is_found() -> None:
    assert run(
        "import json, worker.models, anthropic; from anthropic import AsyncAnthropicBedrock as found; "
        "print(json.dumps([found.__name__, anthropic.AsyncAnthropicVertex.__name__]))"
    ) == ["AsyncAnthropicBedrock", "AsyncAnthropicVertex"]


def test_threads_that_ask_at_once_all_find_it() -> None:
    assert (
        run("""
import json, threading, worker.models, anthropic
found = []
def ask():
    found.append(anthropic.AsyncAnthropicBedrock.__name__)
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(found))
""")
        == ["AsyncAnthropicBedrock"] * 4
    )


def test_the_sdks_debug_log_is_set_up_where_it_is_asked_for() -> None:
    assert (
        run("""
import json, logging, os
os.environ["ANTHROPIC_LOG"] = "debug"
import worker.models, anthropic
print(json.dumps(logging.getLogger("anthropic").level))
""")
        == 10
    )


def test_a_name_that_the_sdk_does_not_have_is_an_attribute_error() -> None:
    script = """
import json, worker.models, anthropic, anthropic.types
told = []
for module in (anthropic, anthropic.types):
    for name in ("NoSuchName", "_no_such_name"):
        try:
            getattr(module, name)
        except AttributeError as error:
            told.append(str(error))
print(json.dumps(told))
"""
    told = run(script)
    assert len(told) == 4
    assert "module 'anthropic.types' has no attribute 'NoSuchName'" in told
