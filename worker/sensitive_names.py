"""Names of files that hold secrets or run by themselves: the data of `boundaries.sensitive`.

All in lower case. Each entry is a reason, as a phrase that follows a file's name, and what it is for.
"""

from __future__ import annotations

import re
from typing import Final

HARMLESS: Final = re.compile(
    r"[._-](example|sample|template|tmpl|dist|defaults?|schema|form)(\.(json|toml|txt|ya?ml))?$|\.pub$"
)
"""Ends of names that have the looks of a secret and hold none."""

CODE: Final = re.compile(
    r"\.([cm]?[jt]sx?|c|cc|cpp|cs|css|dart|ex|exs|go|h|hpp|html?|java|kt|kts|lua|mdx?|pyi?|rb|rs|rst|scala"
    r"|svelte|swift|vue|zig)$"
)
"""Ends of names of code and of texts about it, for which no pattern counts: `id_rsa_test.go`, `.env.d.ts`.

Neither shell scripts nor PHP: as `.env.sh` and `.env.php` they are where secrets are set.
"""

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

_SECRET: Final = ("credentials", "secret", "secrets")
"""Other files of variables for Terraform do not ask: they are read all day, and most hold no secret."""

_CREDENTIALS: Final = """
.authinfo .authinfo.gpg .boto .databrickscfg .dockercfg .git-credentials .htpasswd .my.cnf
.mylogin.cnf .netrc .npmrc .pgpass .pypirc .s3cfg .terraformrc .vault-token .yarnrc.yml _netrc
application_default_credentials.json clouds.yaml clouds.yml credentials credentials.tfrc.json
gshadow kubeconfig kubeconfig.yaml kubeconfig.yml pgpass.conf rclone.conf shadow sudoers
terraform.rc wallet.dat
"""

_STARTED: Final = """
.bash_aliases .bash_completion .bash_login .bash_logout .bash_profile .bashrc .cshrc .direnvrc
.envrc .exrc .gdbinit .gitconfig .gvimrc .inputrc .irbrc .kshrc .lldbinit .login .logout .mcp.json
.mkshrc .pam_environment .pdbrc .profile .pythonrc .pythonrc.py .rprofile .tcshrc .vimrc .xinitrc
.xonshrc .xprofile .xsession .xsessionrc .zlogin .zlogout .zprofile .zshenv .zshrc authorized_keys
bash.bashrc config.fish crontab profile.ps1 sitecustomize.py usercustomize.py
"""

NAMES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("may hold credentials", frozenset(_CREDENTIALS.split())),
    ("may hold credentials", frozenset(f"{name}.{kind}" for name in _SECRET for kind in (*_DATA, "tfvars"))),
    ("is run by a shell or a program at its start", frozenset(_STARTED.split())),
)
"""Whole names of files."""

PATTERNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "may hold secrets",
        (".env", ".env.*", "*.env", ".env-*", ".env_*", ".env[0-9]*", ".envrc.*", ".flaskenv"),
    ),
    (
        "may be a private key",
        (
            "id_rsa*",
            "id_dsa*",
            "id_ecdsa*",
            "id_ed25519*",
            "id_xmss*",
            "ssh_host_*_key",
            "*.pem",
            "*.key",
            "*.p12",
            "*.pfx",
            "*.ppk",
            "*.pvk",
            "*.pkcs12",
            "*.keytab",
            "secring.*",
            "*.jks",
            "*.jceks",
            "*.bks",
            "*.bcfks",
            "*.keystore",
            "*.kdbx",
            "*.p8",
        ),
    ),
    (
        "may hold credentials",
        (
            "*.tfstate",
            "*.tfstate.*",
            "client_secret*.json",
            "service-account*.json",
            "service_account*.json",
            "kubeconfig[-_.]*",
            "*.kubeconfig",
            "secrets.*.tfvars",
            "secret.*.tfvars",
        ),
    ),
    ("is run by a shell or a program at its start", ("*_profile.ps1",)),
    ("holds what was typed before", (".*_history", ".lesshst", ".viminfo")),
)
"""Shell patterns of file names."""

FOLDERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("holds SSH keys and settings", (".ssh",)),
    ("holds keys", (".gnupg",)),
    ("holds passwords", (".password-store",)),
    ("may hold secrets", (".secrets",)),
    ("may hold secrets", ("run", "secrets")),
    ("may hold secrets", (".env.d",)),
    ("may hold secrets", (".envs",)),
    ("may hold credentials", (".aws",)),
    ("may hold credentials", (".aliyun",)),
    ("may hold credentials", (".oci",)),
    ("may hold credentials", (".azure",)),
    ("may hold credentials", (".config", "gcloud")),
    ("may hold credentials", (".config", "gh")),
    ("may hold credentials", (".config", "op")),
    ("may hold credentials", (".config", "hub")),
    ("may hold credentials", (".config", "glab-cli")),
    ("may hold credentials", (".config", "doctl")),
    ("may hold credentials", ("containers", "auth.json")),
    ("may hold credentials", (".claude", ".credentials.json")),
    ("may hold credentials", (".codex", "auth.json")),
    ("may hold credentials", (".gemini", "oauth_creds.json")),
    ("may hold credentials", (".docker", "config.json")),
    ("may hold credentials", (".kube", "config*")),
    ("may hold credentials", (".m2", "settings.xml")),
    ("may hold credentials", (".gradle", "gradle.properties")),
    ("may hold credentials", (".composer", "auth.json")),
    ("may hold credentials", ("share", "keyrings")),
    ("may hold credentials", ("library", "keychains")),
    ("is run by git", (".husky",)),
    ("is run by git", (".githooks",)),
    ("is run by git", (".git-hooks",)),
    ("is run when an editor opens the folder", (".vscode", "tasks.json")),
    ("is run when an editor opens the folder", (".devcontainer", "devcontainer.json")),
    ("names programs that other agents run", (".claude", "settings.json")),
    ("names programs that other agents run", (".claude", "settings.local.json")),
    ("names programs that other agents run", (".cursor", "mcp.json")),
    ("names programs that other agents run", (".vscode", "mcp.json")),
    ("holds the project's rules for iac-code", (".iac-code", "rules.json")),
    ("is git's own configuration", (".config", "git")),
    ("is run by a shell at its start", ("fish", "conf.d")),
    ("is run by a shell at its start", ("fish", "functions")),
    ("is run by a shell at its start", ("nushell", "config.nu")),
    ("is run by a shell at its start", ("nushell", "env.nu")),
    ("is run by a shell at its start", ("nushell", "login.nu")),
    ("is run by a shell at its start", ("nushell", "autoload")),
    ("is run by a shell at its start", ("xonsh", "rc.*")),
    ("is run by a shell at its start", (".oh-my-zsh", "custom")),
    *(
        ("is run by a shell at its start", (f".{name}.d",))
        for name in ("bashrc", "bash_completion", "bash_profile", "profile", "zshrc", "zshenv", "zprofile")
    ),
    *(
        ("is run by a shell at its start", ("etc", name))
        for name in ("profile", "bashrc", "bash_completion.d", "environment", "zsh", "zsh*rc", "zshenv")
    ),
    *(("is run by a shell at its start", ("etc", name)) for name in ("zprofile", "csh.*", "fish")),
    ("is run by the system by itself", (".config", "autostart")),
    ("is run by the system by itself", ("systemd", "user")),
    ("is run by the system by itself", ("library", "launchagents")),
    ("is run by the system by itself", ("etc", "cron.d")),
    ("is run by the system by itself", ("etc", "cron.daily")),
    ("is run by the system by itself", ("etc", "profile.d")),
)
"""Parts of a path that follow each other; everything below them counts. The last may be a shell pattern."""

DATA_FOLDERS: Final = ("secret", "secrets")
"""Folders in which any file of data may hold secrets; code, and what makes it a package, does not."""

DATA: Final = re.compile(rf"\.({'|'.join(_DATA)})$")
"""See `_DATA`."""

MANIFESTS: Final = (
    "cargo.toml",
    "cmakelists.txt",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "tsconfig.json",
)
"""What makes a package of a folder with code."""
