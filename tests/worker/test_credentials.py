"""What tools see of the environment."""

from __future__ import annotations

from worker.credentials import tool_environment


def test_tools_do_not_get_the_agents_own_credentials() -> None:
    environ = {
        "ANTHROPIC_API_KEY": "1",
        "ANTHROPIC_AUTH_TOKEN": "2",
        "ANTHROPIC_CUSTOM_HEADERS": "x-gateway-key: 3",
        "AWS_BEARER_TOKEN_BEDROCK": "4",
        "IAC_CODE_SHARED_TOKEN": "5",
        "IAC_CODE_SECRET": "6",
        "ANTHROPIC_BASE_URL": "https://user:7@gateway",
    }
    assert tool_environment(environ) == {}


def test_tools_keep_what_they_need() -> None:
    environ = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "tf",
        "KUBECONFIG": "/k",
        "TF_VAR_db_password": "x",
        "ANTHROPIC_BASE_URL": "http://h",
        "IAC_CODE_MODEL": "offline",
    }
    assert tool_environment(environ) == environ


def test_a_setting_withholds_more_by_name_or_pattern() -> None:
    environ = {"GITHUB_TOKEN": "a", "CI_A": "b", "CI_B": "c", "HOME": "/h", "ci_a": "d"}
    assert tool_environment(environ, ["GITHUB_TOKEN", "CI_*"]) == {"HOME": "/h", "ci_a": "d"}
