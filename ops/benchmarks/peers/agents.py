"""Who is compared: what is installed, how it is told of the double, and what its tools are called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

CACHE: Final = Path(__file__).resolve().parents[3] / ".peers"
"""What is installed, one folder a peer; git does not look into it."""
Settings = Callable[[Path, str], dict[str, str]]
"""Writes what is needed below a throw-away HOME, given the double's base URL; gives more environment."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An agent: how it is installed and told of the double, and the tools that it is asked to use."""

    name: str
    source: Literal["here", "pip", "npm"]
    packages: tuple[str, ...]
    """As its installer is told them; the first is the agent."""
    arguments: tuple[str, ...]
    """The program and what it is told."""
    settle: Settings
    shell: tuple[str, str]
    """Its tool that runs a command, and the parameter that takes it."""
    read: tuple[str, str]
    """Its tool that reads a file, and the parameter that takes the path."""
    search: tuple[str, str, str] | None
    """Its tool that searches text, and the parameters of pattern and path; None if it offers no such tool."""
    searching: Mapping[str, Any] = field(default_factory=dict)
    """What its search has to be told for the pattern to be a regular expression."""

    @property
    def prefix(self) -> Path:
        """Where it is installed."""
        return CACHE / self.name.replace(" ", "-")

    @property
    def command(self) -> list[str]:
        """What starts it."""
        folder = {
            "here": Path(sys.executable).parent,
            "pip": self.prefix / "bin",
            "npm": self.prefix / "node_modules" / ".bin",
        }[self.source]
        return [str(folder / self.arguments[0]), *self.arguments[1:]]

    def run(self, command: str) -> str:
        """A directive that has it run a shell command."""
        tool, parameter = self.shell
        return f"@tool {tool} {json.dumps({parameter: command})}"

    def open(self, path: Path) -> str:
        """A directive that has it read a file."""
        tool, parameter = self.read
        return f"@tool {tool} {json.dumps({parameter: str(path)})}"

    def find(self, pattern: str, path: Path) -> str | None:
        """A directive that has it search a folder; None where it cannot."""
        if self.search is None:
            return None
        tool, for_pattern, for_path = self.search
        return f"@tool {tool} {json.dumps({for_pattern: pattern, for_path: str(path), **self.searching})}"


def _anthropic(home: Path, base_url: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-double", "ANTHROPIC_BASE_URL": base_url}


def _reference(home: Path, base_url: str) -> dict[str, str]:
    return {
        "IAC_CODE_PROVIDER": "anthropic",
        "IAC_CODE_API_KEY": "sk-double",
        "IAC_CODE_BASE_URL": base_url,
        "IAC_CODE_MODEL": "claude-sonnet-4-5",
        "IAC_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **_anthropic(home, base_url),
    }


def _kimi(home: Path, base_url: str) -> dict[str, str]:
    _write(
        home / ".kimi" / "config.toml",
        f"""default_model = "double"
[models.double]
provider = "double"
model = "double"
max_context_size = 1000000
[providers.double]
type = "openai_legacy"
base_url = "{base_url}/v1"
api_key = "sk-double"
""",
    )
    return {"KIMI_CLI_NO_AUTO_UPDATE": "1"}


def _vibe(home: Path, base_url: str) -> dict[str, str]:
    _write(
        home / ".vibe" / "config.toml",
        f"""active_model = "double"
enable_update_checks = false
enable_telemetry = false
[[providers]]
name = "double"
api_base = "{base_url}/v1"
api_key_env_var = "DOUBLE_API_KEY"
[[models]]
name = "double"
provider = "double"
alias = "double"
""",
    )
    return {"DOUBLE_API_KEY": "sk-double", "MISTRAL_API_KEY": "sk-double"}


def _openai(home: Path, base_url: str) -> dict[str, str]:
    return {
        "LLM_PROVIDER": "openai",
        "OPENAI_API_KEY": "sk-double",
        "OPENAI_BASE_URL": f"{base_url}/v1",
        "OPENAI_MODEL": "double",
    }


def _opencode(home: Path, base_url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{base_url}/v1", "apiKey": "sk-double"},
        "models": {"double": {"name": "double", "tool_call": True}},
    }
    settings = {"model": "double/double", "small_model": "double/double", "autoupdate": False}
    text = json.dumps({**settings, "share": "disabled", "provider": {"double": provider}})
    _write(home / ".config" / "opencode" / "opencode.json", text)
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def _gemini(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "model": {"name": "gemini-2.5-flash"},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": "double",
        "GOOGLE_GEMINI_BASE_URL": base_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _qwen(home: Path, base_url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "model": {"name": "double"},
    }
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return _openai(home, base_url)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


OURS: Final = "iac-code (this)"
PEERS: Final = (
    Peer(
        OURS,
        "here",
        (),
        ("iac-code", "acp"),
        _anthropic,
        ("bash", "command"),
        ("read_file", "path"),
        ("grep", "pattern", "path"),
    ),
    Peer(
        "iac-code 0.13.1",
        "pip",
        ("iac-code==0.13.1", "agent-client-protocol==0.9.0"),
        ("iac-code", "acp"),
        _reference,
        ("bash", "command"),
        ("read_file", "path"),
        ("grep", "pattern", "path"),
    ),
    Peer(
        "kimi-cli",
        "pip",
        ("kimi-cli==1.51.0",),
        ("kimi", "acp"),
        _kimi,
        ("Shell", "command"),
        ("ReadFile", "path"),
        ("Grep", "pattern", "path"),
    ),
    Peer(
        "mistral-vibe",
        "pip",
        ("mistral-vibe==3.0.2",),
        ("vibe-acp",),
        _vibe,
        ("bash", "command"),
        ("read_file", "path"),
        None,
    ),
    Peer(
        "agentao",
        "pip",
        ("agentao[cli]==0.5.17",),
        ("agentao", "--acp", "--stdio"),
        _openai,
        ("run_shell_command", "command"),
        ("read_file", "file_path"),
        ("search_file_content", "pattern", "directory"),
        {"regex": True},
    ),
    Peer(
        "opencode-ai",
        "npm",
        ("opencode-ai@1.18.33",),
        ("opencode", "acp"),
        _opencode,
        ("bash", "command"),
        ("read", "filePath"),
        ("grep", "pattern", "path"),
    ),
    Peer(
        "gemini-cli",
        "npm",
        ("@google/gemini-cli@0.61.0",),
        ("gemini", "--acp"),
        _gemini,
        ("run_shell_command", "command"),
        ("read_file", "file_path"),
        ("grep_search", "pattern", "dir_path"),
    ),
    Peer(
        "qwen-code",
        "npm",
        ("@qwen-code/qwen-code@0.15.10",),
        ("qwen", "--acp"),
        _qwen,
        ("run_shell_command", "command"),
        ("read_file", "file_path"),
        ("grep_search", "pattern", "path"),
    ),
)
