"""Paths are judged by where they really lead, and some files by what they hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker.boundaries import inside, resolve, sensitive


def test_a_path_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "chain").symlink_to("link")
    (root / "dangling").symlink_to(outside / "new")
    (root / "back").symlink_to(root / "sub")
    (root / "loop").symlink_to("loop")
    leads_inside = {
        "f": True,
        "sub/../f": True,
        "none/new/file": True,
        "back/f": True,
        "back/../f": True,
        "link/f": False,
        "link": False,
        "chain/none/f": False,
        "dangling": False,
        "link/../f": False,
        "../outside": False,
        "sub/../../outside": False,
        "..": False,
        "/proc/self/root/etc/passwd": False,
        "loop/x": True,
    }
    roots = (resolve(root),)
    for path, expected in leads_inside.items():
        assert inside(resolve(root / path), roots) is expected, path
    assert inside(resolve(Path(f"/proc/self/root{root}/f")), roots)
    # `link/..` is the folder of what the link leads to, and not the one that holds the link.
    assert resolve(root / "link" / ".." / "f") == resolve(tmp_path / "f")


def test_a_name_that_only_begins_like_a_root_is_outside(tmp_path: Path) -> None:
    assert not inside(tmp_path / "rootkit", (tmp_path / "root",))
    assert inside(tmp_path / "b", (tmp_path / "a", tmp_path / "b"))
    assert not inside(tmp_path, ())


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_a_path_that_no_file_can_have_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match=r"null|surrogates"):
        resolve(Path(path))


SENSITIVE = """
/w/.env /w/.env.local /w/a/.env.production /w/prod.env /w/.envrc /w/.ENV
/home/u/.ssh/id_ed25519 /home/u/.ssh/config /home/u/.ssh/authorized_keys /home/u/.ssh
/w/id_rsa /w/deploy_key.pem /w/server.key /w/cert.p12 /home/u/.gnupg/pubring.kbx
/home/u/.aws/credentials /home/u/.aws/config /home/u/.netrc /w/.npmrc /home/u/.pypirc /w/.git-credentials
/home/u/.docker/config.json /home/u/.kube/config /home/u/.config/gcloud/x.db /home/u/.config/gh/hosts.yml
/w/terraform.tfstate /w/terraform.tfstate.backup /w/secrets.yaml /w/client_secret_1.json
/w/.git/hooks/pre-commit /w/.git/config /w/.git /w/.git/modules/x/config /w/.git/modules/x/hooks/post-checkout
/w/.git/worktrees/x/config.worktree /w/bare.git/hooks/update /w/bare.git/config /w/.husky/pre-commit
/home/u/.bashrc /home/u/.zshenv /home/u/.profile /home/u/.config/fish/config.fish /home/u/.gitconfig
/home/u/.config/git/config /etc/profile.d/x.sh /etc/cron.d/x /home/u/.config/autostart/x.desktop
/home/u/.config/systemd/user/x.service /Users/u/Library/LaunchAgents/x.plist /w/.vscode/tasks.json
/etc/shadow /home/u/.bash_history /w/sitecustomize.py /w/.mcp.json /w/.claude/settings.json
/w/.cursor/mcp.json /w/.devcontainer/devcontainer.json /w/.iac-code/rules.json /w/kubeconfig.yaml
/w/credentials.yml /w/credentials.yaml /w/credentials.csv /w/secrets.ini
/etc/ssh/ssh_host_rsa_key /w/ssh_host_ed25519_key /etc/krb5.keytab /w/secring.gpg /w/x.jceks /w/x.bks
/w/x.pvk /w/id_xmss /home/u/.authinfo /home/u/.authinfo.gpg /w/.yarnrc.yml /home/u/.claude/.credentials.json
/home/u/.codex/auth.json /home/u/.config/containers/auth.json /home/u/.config/hub /home/u/.aliyun/config.json
/home/u/.oci/config /home/u/.databrickscfg /w/clouds.yaml /home/u/pgpass.conf /w/secret.yaml
/w/secrets/prod.yaml /w/secrets/eu/db.json /w/.secrets /w/.secrets/token /run/secrets/db_password
/home/u/.kube/config-prod /w/kubeconfig-prod /w/prod.kubeconfig /w/secrets.tfvars /w/secrets.auto.tfvars
/w/.env1 /w/.env2 /w/.flaskenv /w/.env.d/x /w/.envs/.production/.django /w/.envrc.private
/w/.env.sh /w/.env.php
/w/.githooks/pre-commit /home/u/.bashrc.d/x /home/u/.zshrc.d/x.zsh /home/u/.oh-my-zsh/custom/x.zsh
/home/u/.bash_completion /home/u/.config/nushell/config.nu /home/u/.config/nushell/env.nu /home/u/.xonshrc
/home/u/.config/powershell/Microsoft.PowerShell_profile.ps1 /home/u/.config/powershell/profile.ps1
/home/u/.config/fish/functions/ls.fish /etc/profile /etc/bashrc /etc/zsh/zshrc /etc/zshrc
"""

COPIES = """
/w/.env~ /w/#.env# /w/.#.env /w/prod.env.bak /w/.bashrc~ /w/.bashrc.swp /w/.zshrc.local /w/.npmrc~
/w/.yarnrc.yml~ /w/.env1.bak /w/.secrets.old/x /w/kubeconfig-prod.bak
/w/.netrc.old /w/.npmrc.orig.1 /w/.netrc.save.2 /w/.bashrc.~3~ /w/server.key.bak /w/credentials.json.bak~
/w/secrets.yml.tmp /w/.credentials.json.swp /w/.id_rsa.swo /w/.credentials.un~ /etc/shadow-
/etc/sudoers.dpkg-old /etc/sudoers.rpmsave /w/kubeconfig_backup /home/u/.ssh.bak/known_hosts
/home/u/.kube/config.bak /home/u/.docker/config.json~ /home/u/.aws_old/config /w/.git/config.bak
/w/.env|copy /w/.netrc|(copy) /w/.netrc|(2)
"""

HARMLESS = """
/w/src/main.py /w/.env.example /w/.env.sample /w/env.py /w/environment /w/.git/HEAD /w/.git/objects/ab/cd
/w/.gitignore /w/.github/workflows/ci.yml /w/id_rsa.pub /w/hooks/x /w/config /w/keyboard.py /w/monkey.txt
/w/.vscode/settings.json /w/docs/credentials.md /w/main.tf /w/profile /w/git/hooks/x /w/secrets.py
/w/id_rsa_helper.py /w/id_rsa.md /w/id_ecdsa_test.go /w/.env.d.ts /w/src/.env.ts /w/.env.js /w/.env.py
/w/x.tfstate.go /w/service-account-form.json /w/client_secret.example.json /w/kubeconfig.go
/w/kubeconfig_test.go
/w/terraform.tfvars /w/prod.auto.tfvars /w/src/secrets/index.ts /w/secrets/README.md /w/secrets/package.json
/w/secrets/db.example.yaml /w/secret.go /w/ssh_host_rsa_key.pub /w/fish/x.fish /w/etc/x /w/src/config.nu
/w/main.py~ /w/#main.py# /w/main.py.orig /w/man/crontab.5 /w/config.bak
/w/.git/commondir /w/.git/logs/HEAD /w/.git/info/exclude /w/.git/index /w/~ /w/- /w/# /w/.local /w/copy
"""

GITS_OWN = """
/w/.git/commondir /w/.git/HEAD /w/.git/config.lock /w/.git/index /w/.git/info/attributes /w/.GIT/refs/heads/x
/w/.git/objects/info/alternates /w/.git/modules/a/commondir /w/.git/worktrees/a/gitdir /w/bare.git/commondir
/w/bare.git/worktrees/a/commondir /w/evil/commondir
"""


@pytest.mark.parametrize("path", SENSITIVE.split())
def test_what_holds_secrets_or_runs_by_itself_is_sensitive(path: str) -> None:
    assert sensitive(Path(path))


@pytest.mark.parametrize("path", HARMLESS.split())
def test_ordinary_files_are_not_sensitive(path: str) -> None:
    assert sensitive(Path(path)) is None


@pytest.mark.parametrize("path", COPIES.split())
def test_a_copy_is_as_sensitive_as_what_it_is_a_copy_of(path: str) -> None:
    assert sensitive(Path(path.replace("|", " ")))


@pytest.mark.parametrize("path", HARMLESS.split())
def test_ordinary_files_may_be_written(path: str) -> None:
    assert (sensitive(Path(path), write=True) is None) is not path.startswith("/w/.git/")


@pytest.mark.parametrize("path", GITS_OWN.split())
def test_what_git_keeps_is_sensitive_to_a_write(path: str) -> None:
    assert sensitive(Path(path), write=True)
    assert sensitive(Path(path)) is None


def test_a_folder_does_not_become_a_repository_with_settings_unasked(tmp_path: Path) -> None:
    for folder, first, second in (("a", "HEAD", "config"), ("b", "config", "HEAD")):
        (tmp_path / folder).mkdir()
        assert sensitive(tmp_path / folder / first, write=True) is None
        (tmp_path / folder / first).touch()
        assert sensitive(tmp_path / folder / second, write=True)
        assert sensitive(tmp_path / folder / second) is None
    assert sensitive(tmp_path / "a/hooks/post-checkout", write=True)
    assert sensitive(tmp_path / "a/config.worktree", write=True)
    assert sensitive(tmp_path / "a/main.py", write=True) is None
    # To git a HEAD may be a link that dangles, and hooks need no settings.
    (tmp_path / "link").mkdir()
    (tmp_path / "link/HEAD").symlink_to("refs/heads/main")
    assert sensitive(tmp_path / "link/config", write=True)
    assert sensitive(tmp_path / "link/hooks/x", write=True)
    (tmp_path / "link2").mkdir()
    (tmp_path / "link2/config").symlink_to("../later")
    assert sensitive(tmp_path / "link2/HEAD", write=True)
    (tmp_path / "two/hooks").mkdir(parents=True)
    assert sensitive(tmp_path / "two/HEAD", write=True)
    assert sensitive(tmp_path / "two/HEAD") is None
    # As in many projects.
    (tmp_path / "c/config").mkdir(parents=True)
    assert sensitive(tmp_path / "c/HEAD", write=True) is None


@pytest.mark.parametrize("linked", [True, False])
def test_a_folder_with_files_checked_out_is_no_bare_repository(tmp_path: Path, linked: bool) -> None:
    """Git takes the `.git` in it, whatever its name and whatever else is there."""
    tree = tmp_path / "site.git"
    ordinary = ("src/hooks/useThing.ts", "hooks/x", "config", "src/config", "HEAD")
    (tree / "hooks").mkdir(parents=True)
    assert sensitive(tree / "src/hooks/useThing.ts")
    if linked:
        (tree / ".git").write_text("gitdir: ../other/.git/worktrees/site")
    else:
        (tree / ".git/objects").mkdir(parents=True)
        (tree / ".git/refs").mkdir()
        assert sensitive(tree / "config")
        (tree / ".git/HEAD").symlink_to("refs/heads/main")
    for path in ordinary:
        assert sensitive(tree / path, write=True) is None, path
    (tree / "HEAD").touch()
    assert sensitive(tree / "config", write=True) is None
    for path in (".git", ".git/config", ".git/hooks/x", "vendor/bare.git/config", "sub/.git/hooks/x"):
        assert sensitive(tree / path), path


@pytest.mark.parametrize("named", [True, False])
def test_the_agents_own_folder_is_sensitive_but_for_spilled_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    own = tmp_path / ("conf" if named else ".iac-code")
    own.mkdir()
    if named:
        (tmp_path / "link").symlink_to(own)
        monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(tmp_path / "link"))
    else:
        monkeypatch.delenv("IAC_CODE_CONFIG_DIR", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
    assert sensitive(resolve(own)) is not None
    assert sensitive(resolve(own / "settings.json")) is not None
    assert sensitive(resolve(own / "sessions/s1/history.jsonl")) is not None
    assert sensitive(resolve(own / "sessions/s1/spill/out.txt")) is None
    assert sensitive(resolve(own / "sessions/s1/spill/../meta.json")) is not None


def test_judging_a_path_is_cheap() -> None:
    paths = [Path(path) for path in (SENSITIVE + HARMLESS).split()]
    before = os.times().user
    for _ in range(20):
        for path in paths:
            sensitive(path)
    assert (os.times().user - before) / (20 * len(paths)) < 0.001
