"""Skills: found in the user's and the project's folders, listed, read with care."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from worker import skills
from worker.boundaries import is_skill, resolve
from worker.permissions import Call, Policy, decide
from worker.tools.base import Access

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub" / "deep").mkdir(parents=True)
    return tmp_path / "repo"


def skill(folder: Path, name: str, text: str | None = None, description: str = "does it") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        text if text is not None else f"---\nname: {name}\ndescription: {description}\n---\nBody.\n"
    )
    return path


def test_skills_of_the_user_and_of_the_whole_repository_are_found(config: Path, repository: Path) -> None:
    skill(config / "skills", "mine")
    skill(repository / ".iac-code" / "skills", "top")
    skill(repository / "sub" / ".claude" / "skills", "middle")
    skill(repository / "sub" / "deep" / ".iac-code" / "skills", "here")
    skill(repository.parent / ".iac-code" / "skills", "outside")
    found = skills.find_skills(repository / "sub" / "deep")
    assert [(s.name, s.of_project) for s in found] == [
        ("here", True),
        ("middle", True),
        ("mine", False),
        ("top", True),
    ]
    section = skills.section(found)
    assert "- mine: does it\n" in section
    assert "- top (of the project): does it\n" in section
    assert str(config / "skills" / "mine" / "SKILL.md") in section


def test_a_project_cannot_take_the_place_of_a_skill_of_the_user(config: Path, repository: Path) -> None:
    own = skill(config / "skills", "deploy", description="mine")
    skill(repository / ".iac-code" / "skills", "deploy", description="theirs")
    (found,) = skills.find_skills(repository)
    assert (found.description, found.path) == ("mine", own)


def test_the_nearest_skill_of_a_project_counts(config: Path, repository: Path) -> None:
    skill(repository / ".iac-code" / "skills", "lint", description="far")
    skill(repository / "sub" / ".iac-code" / "skills", "lint", description="near")
    (found,) = skills.find_skills(repository / "sub")
    assert found.description == "near"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("---\nname: a\ndescription: b: c\n---\n", {"name": "a", "description": "b: c"}),
        ("---\nname: \"a b\"\ndescription: 'x'\n---", {"name": "a b", "description": "x"}),
        (
            "---\r\nName: a\r\ndescription: >-\r\n  one\r\n  two\r\n---\r\n",
            {"name": "a", "description": "one two"},
        ),
        ("---\ndescription: one\n  two\nother:\n  - x\n---\n", {"description": "one two", "other": "- x"}),
        ("---\nname: a\nno end", {}),
        ("name: a", {}),
        ("", {}),
    ],
)
def test_front_matter_is_read_in_its_usual_forms(text: str, fields: dict[str, str]) -> None:
    assert skills.front_matter(text) == fields


def test_what_is_no_skill_is_passed_over(config: Path, repository: Path) -> None:
    folder = repository / ".iac-code" / "skills"
    skill(folder, "no-front-matter", "Just text.")
    skill(folder, "no-description", "---\nname: x\n---\n")
    (folder / "empty").mkdir()
    (folder / "file").write_text("no folder")
    (folder / "fifo").mkdir()
    os.mkfifo(folder / "fifo" / "SKILL.md")
    skill(folder, "odd name!", "---\ndescription: d\n---\n")
    binary = skill(folder, "binary", "")
    binary.write_bytes(b"---\nname: binary\ndescription: \xff\x00d\n---\n")
    assert [s.name for s in skills.find_skills(repository)] == ["binary"]


def test_a_link_out_of_the_project_is_not_followed(config: Path, repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("---\nname: leak\ndescription: the secret\n---\n")
    folder = repository / ".iac-code" / "skills"
    (folder / "leak").mkdir(parents=True)
    (folder / "leak" / "SKILL.md").symlink_to(secret)
    skill(tmp_path / "elsewhere", "away")
    (folder / "away").symlink_to(tmp_path / "elsewhere" / "away")
    assert skills.find_skills(repository) == []
    kept = skill(folder, "turned")
    (found,) = skills.find_skills(repository)
    kept.unlink()
    kept.symlink_to(secret)
    with pytest.raises(OSError, match="cannot be read"):
        skills.prompt(found, "")


def test_a_command_hands_over_the_skill_and_what_was_typed(config: Path, repository: Path) -> None:
    skill(config / "skills", "mine")
    (found,) = skills.find_skills(repository)
    text = skills.prompt(found, "for main.tf")
    assert text.startswith("Use the skill mine.\n\nfor main.tf")
    assert "Body." in text


def test_files_of_the_users_skills_are_read_unasked_and_nothing_else_of_ours(
    config: Path, repository: Path, tmp_path: Path
) -> None:
    real = skill(tmp_path / "dotfiles", "linked").parent
    own = skill(config / "skills", "mine").parent
    (config / "skills" / "linked").symlink_to(real)
    folders = skills.own_folders(skills.find_skills(repository))
    policy = Policy(mode="default", roots=(repository,), skills=folders)

    def verdict(path: Path, *, write: bool = False) -> str:
        access = Access(resolve(path), write)
        tool = "write_file" if write else "read_file"
        return decide(Call(tool, "edit" if write else "read", not write, (access,)), policy).verdict

    assert verdict(own / "SKILL.md") == "allow"
    assert verdict(own / "more" / "notes.txt") == "allow"
    assert verdict(config / "skills" / "linked" / "SKILL.md") == "allow"
    assert verdict(own / "SKILL.md", write=True) == "ask"
    assert verdict(own / ".env") == "ask"
    assert verdict(own / ".." / ".." / "settings.json") == "ask"
    assert verdict(config / "settings.json") == "ask"
    assert not is_skill(config / "sessions", folders)
