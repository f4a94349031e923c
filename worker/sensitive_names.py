"""Names of files that hold secrets or run by themselves: the data of `boundaries.sensitive`.

All in lower case. Each entry is a reason, as a phrase that follows a file's name, and what it is for.
"""

from __future__ import annotations

import re
from typing import Final

HARMLESS: Final = re.compile(r"[._-](example|sample|template|tmpl|dist|defaults?|schema)$|\.pub$")
"""Ends of names that have the looks of a secret and hold none."""

COPY: Final = re.compile(
    r"\.?#(.+?)#?"  # Emacs
    r"|(.+?)(?:\.~\d+~|\.un~|~|-)"
    r"|(.+?)\.(?:dpkg|ucf|rpm|pac)-?(?:bak|new|old|orig|save|tmp)"
    r"|(.+?)[._-](?:bak|backup|bkp|copy|local|new|old|orig|original|prev|save|saved|sw[a-z]|temp|tmp)\.?\d*"
    r"|(.+?) (?:copy(?: \d+)?|\(copy\)|\(\d+\))"
)
"""Names that editors, package managers and people give to copies; the group that matched is the original."""

_DATA: Final = ("cfg", "conf", "csv", "env", "ini", "json", "properties", "toml", "txt", "xml", "yaml", "yml")
"""Ends of names of files that hold data; a `secrets.py` is code that handles them."""

NAMES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (
        "may hold credentials",
        frozenset(
            (
                ".boto",
                ".dockercfg",
                ".git-credentials",
                ".htpasswd",
                ".my.cnf",
                ".mylogin.cnf",
                ".netrc",
                ".npmrc",
                ".pgpass",
                ".pypirc",
                ".s3cfg",
                ".terraformrc",
                ".vault-token",
                "_netrc",
                "application_default_credentials.json",
                "credentials",
                "credentials.tfrc.json",
                "gshadow",
                "kubeconfig",
                "kubeconfig.yaml",
                "kubeconfig.yml",
                "rclone.conf",
                "shadow",
                "sudoers",
                "terraform.rc",
                "wallet.dat",
                *(f"{name}.{kind}" for name in ("credentials", "secrets") for kind in _DATA),
            )
        ),
    ),
    (
        "is run by a shell or a program at its start",
        frozenset(
            (
                ".bash_aliases",
                ".bash_login",
                ".bash_logout",
                ".bash_profile",
                ".bashrc",
                ".cshrc",
                ".envrc",
                ".exrc",
                ".gdbinit",
                ".gitconfig",
                ".gvimrc",
                ".inputrc",
                ".irbrc",
                ".kshrc",
                ".lldbinit",
                ".login",
                ".logout",
                ".mkshrc",
                ".pam_environment",
                ".pdbrc",
                ".profile",
                ".pythonrc",
                ".pythonrc.py",
                ".rprofile",
                ".tcshrc",
                ".vimrc",
                ".xinitrc",
                ".xprofile",
                ".xsession",
                ".xsessionrc",
                ".zlogin",
                ".zlogout",
                ".zprofile",
                ".zshenv",
                ".zshrc",
                "authorized_keys",
                "bash.bashrc",
                ".direnvrc",
                ".mcp.json",
                "config.fish",
                "crontab",
                "sitecustomize.py",
                "usercustomize.py",
            )
        ),
    ),
)

PATTERNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("may hold secrets", (".env", ".env.*", "*.env", ".env-*", ".env_*")),
    (
        "may be a private key",
        (
            "id_rsa*",
            "id_dsa*",
            "id_ecdsa*",
            "id_ed25519*",
            "*.pem",
            "*.key",
            "*.p12",
            "*.pfx",
            "*.ppk",
            "*.jks",
            "*.keystore",
            "*.kdbx",
            "*.p8",
        ),
    ),
    (
        "may hold credentials",
        ("*.tfstate", "*.tfstate.*", "client_secret*.json", "service-account*.json", "service_account*.json"),
    ),
    ("holds what was typed before", (".*_history", ".lesshst", ".viminfo")),
)
"""Shell patterns of file names."""

FOLDERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("holds SSH keys and settings", (".ssh",)),
    ("holds keys", (".gnupg",)),
    ("holds passwords", (".password-store",)),
    ("may hold credentials", (".aws",)),
    ("may hold credentials", (".azure",)),
    ("may hold credentials", (".config", "gcloud")),
    ("may hold credentials", (".config", "gh")),
    ("may hold credentials", (".config", "op")),
    ("may hold credentials", (".docker", "config.json")),
    ("may hold credentials", (".kube", "config")),
    ("may hold credentials", (".m2", "settings.xml")),
    ("may hold credentials", (".gradle", "gradle.properties")),
    ("may hold credentials", (".composer", "auth.json")),
    ("may hold credentials", ("share", "keyrings")),
    ("may hold credentials", ("library", "keychains")),
    ("is run by git", (".husky",)),
    ("is run when an editor opens the folder", (".vscode", "tasks.json")),
    ("is run when an editor opens the folder", (".devcontainer", "devcontainer.json")),
    ("names programs that other agents run", (".claude", "settings.json")),
    ("names programs that other agents run", (".claude", "settings.local.json")),
    ("names programs that other agents run", (".cursor", "mcp.json")),
    ("names programs that other agents run", (".vscode", "mcp.json")),
    ("holds the project's rules for iac-code", (".iac-code", "rules.json")),
    ("is git's own configuration", (".config", "git")),
    ("is run by a shell at its start", ("fish", "conf.d")),
    ("is run by the system by itself", (".config", "autostart")),
    ("is run by the system by itself", ("systemd", "user")),
    ("is run by the system by itself", ("library", "launchagents")),
    ("is run by the system by itself", ("etc", "cron.d")),
    ("is run by the system by itself", ("etc", "cron.daily")),
    ("is run by the system by itself", ("etc", "profile.d")),
)
"""Parts of a path that follow each other; everything below them counts."""
