"""What a bash command runs, names and changes is told before it runs, or that it cannot be told."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.shell_reading import Reading, read

CWD = Path("/w")
SURROGATE = chr(0xD800)


def named(reading: Reading) -> set[str]:
    """Every path that is named, as the kernel would see it; `!` marks one that may be written."""
    return {os.path.normpath(path.path) + ("!" if path.write else "") for path in reading.paths}


NAMES: dict[str, set[str]] = {
    "cat /etc/passwd": {"/etc/passwd"},
    "cat '/etc/passwd'": {"/etc/passwd"},
    'cat "/etc/passwd"': {"/etc/passwd"},
    "cat /etc/pass''wd": {"/etc/passwd"},
    "cat \\/etc/pass\\wd": {"/etc/passwd"},
    "cat $'\\x2fetc\\057passwd'": {"/etc/passwd"},
    'cat $"/etc/passwd"': {"/etc/passwd"},
    "cat /{etc,var}/x": {"/etc/x", "/var/x"},
    "cat .{.,}/x": {"/x", "/w/x"},
    "cat ../x a/../../y": {"/x", "/y"},
    "cat ~/x": {"/home/u/x"},
    "cat $HOME/x ${HOME}/y": {"/home/u/x", "/home/u/y"},
    'cat "$PWD/../x"': {"/x"},
    "cat '~/x'": {"/w/~/x"},
    "cat /e*c/passwd": {"/", "/e*c/passwd"},
    "cat .?/x .*": {"/", "/w/.?/x", "/w/.*"},
    "ls src/*.py": {"/w/src", "/w/src/*.py"},
    "D=/etc; cat $D/passwd": {"/etc", "/etc/passwd"},
    "D=..; cat $D/x": {"/", "/x"},
    "cat ${X:-/etc/x}": {"/etc/x"},
    "cat /etc/$X": {"/etc!"},
    "echo $(cat /etc/x) `cat /etc/y`": {"/etc/x", "/etc/y"},
    "cat <(cat /etc/x)": {"/etc/x"},
    'echo "a $(cat "/etc/x") b"': {"/etc/x"},
    "echo a > /etc/x": {"/w/a", "/etc/x!"},
    "> /etc/x": {"/etc/x!"},
    "ls 2>> /etc/x": {"/etc/x!"},
    "ls &> /etc/x": {"/etc/x!"},
    "ls >| /etc/x": {"/etc/x!"},
    "wc < /etc/x": {"/etc/x"},
    "exec 3> /etc/x": {"/etc/x!"},
    "{ ls; } > /etc/x": {"/etc/x!"},
    "(ls) > /etc/x": {"/etc/x!"},
    "while read l; do :; done < /etc/x": {"/w/l!", "/etc/x"},
    "cat > /etc/x <<E\nhello /not/this\nE": {"/etc/x!"},
    "cat <<E > out\n$(cat /etc/x)\nE": {"/w/out!", "/etc/x"},
    "ls > /dev/null 2>&1 < /dev/tty": set(),
    "cat < /dev/stdin > /dev/stderr": set(),
    "echo x > /dev/tcp/1.2.3.4/80": {"/w/x", "/dev/tcp/1.2.3.4/80!"},
    "cd /etc && cat x": {"/etc", "/etc/x"},
    "cd .. && cat x": {"/", "/x"},
    "cd a && cat x": {"/w/a", "/w/a/x"},
    "cd a && cd .. && cat x": {"/w/a", "/w", "/w/x"},
    "cd a; cat ../x": {"/w/a", "/w/x", "/x"},
    "cd none || cat x": {"/w/none", "/w/x"},
    "(cd /etc); cat x": {"/etc", "/w/x"},
    "cd && cat x": {"/home/u", "/home/u/x"},
    "pushd /etc; cat x": {"/etc!", "/etc/x", "/w/x"},
    "if true; then cd /etc; fi; cat x": {"/etc", "/etc/x", "/w/x"},
    "tool --file=/etc/x -I/usr/include -o../y if=/dev/sda": {
        "/etc/x!",
        "/usr/include!",
        "/y!",
        "/dev/sda!",
        "/w/if=/dev/sda!",
    },
    "docker run -v /etc:/mnt -v .:/app i": {"/etc!", "/etc:/mnt!", "/w/.:/app!", "/w/run!", "/w/i!"},
    "curl https://a.b/c/d file:///etc/x": {"/etc/x!"},
    "grep -rn /api/v1 src": {"/w/src"},
    "grep -e /api /etc/x": {"/etc/x"},
    "grep --regexp=/api /etc/x": {"/api", "/etc/x"},
    "grep -A 3 /api src": {"/w/3", "/w/src"},
    "rg /api -g '*.py'": {"/w/*.py"},
    "rg --files /etc": {"/etc"},
    "sed -n 2,4p /etc/x": {"/etc/x"},
    "sed 's/a/b/w /etc/x' f": {"/etc/x!", "/w/f!"},
    "awk '/a b/ {print > \"/etc/x\"}' f": {"/etc/x!", "/w/f!"},
    "python3 -c 'open(\"/etc/x\")'": {"/etc/x!", '/w/open("/etc/x")!'},
    "bash -c 'cat /etc/x'": {"/etc/x", "/w/cat /etc/x!"},
    "bash -lc 'cd /etc && cat x'": {"/etc", "/etc/x", "/w/cd /etc && cat x!"},
    "sh <<E\ncat /etc/x\nE": {"/etc/x"},
    "cat <<E | bash\nrm /etc/x\nE": {"/etc/x!"},
    "bash <<< 'cat /etc/x'": {"/etc/x"},
    "trap 'cat /etc/x' EXIT": {"/etc/x", "/w/cat /etc/x!", "/w/EXIT!"},
    "find . -exec cat /etc/x ';'": {"/w!", "/w/cat!", "/etc/x!", "/etc/x", "/w/;!"},
    "[ -f /etc/x ] && [[ -d /etc/y ]]": {"/etc/x", "/etc/y"},
    "case $x in /a) rm /b;; esac": {"/b!"},
    "for f in /etc/x /etc/y; do cat $f; done": {"/etc/x", "/etc/y"},
    "A=(/etc/x b); cat ${A[0]}": {"/etc/x", "/w/b"},
    "export X=/etc/x": {"/etc/x"},
    "PATH=/usr/local/bin:/opt/x/bin make": set(),
    "PATH=/etc:/bin make": {"/etc"},
    "f() { rm /etc/x; }; f": {"/etc/x!", "/w/f"},
    "/usr/bin/env -i /bin/ls": {"/bin/ls!"},
    "/home/u/tool": {"/home/u/tool"},
    "/usr/bin/../../etc/x": {"/etc/x"},
    "./x.sh": {"/w/x.sh"},
    # What comes after a part that only the shell knows may lead up.
    "cat src/*/../../x": {"/w/src", "/w/x"},
    "cat a/*/../../../x": {"/w/a", "/x"},
    "cat ???/../../x": {"/w", "/x"},
    'rm "$X/../y"': {"/y!"},
    "rm $(pwd)/../y": {"/y!"},
    "rm ${PWD%/*}/y ${HOME:?}/z": {"/y!", "/home/u/z!"},
    "cat ~+/../x ~-/../y ~1/z": {"/x!", "/y!"},
    "rm $(dirname $PWD)": {"/w", "/"},
    "rm $(dirname src/a)": {"/w/src/a", "/w/src"},
    "X=; cat $X/etc/x": {"/etc/x"},
    "read f <<< /etc/x; rm $f": {"/etc/x", "/w/f!"},
    "curl -d @/etc/x -F f=@.env -T.env u": {
        *("/w/@/etc/x!", "/etc/x!", "/w/f=@.env!", "/w/.env!", "/w/u!"),
    },
    "docker run --mount type=bind,src=/x,dst=/y i": {
        *("/w/run!", "/w/i!", "/w/type=bind,src=/x,dst=/y!", "/w/bind!", "/x!"),
    },
    "git show HEAD:secrets.yaml": {"/w/show", "/w/HEAD:secrets.yaml", "/w/secrets.yaml"},
    "git config core.pager x": {"/w/config!", "/w/core.pager!", "/w/x!", "/w/.git/config!"},
    "git config --global a.b x": {"/w/config!", "/w/a.b!", "/w/x!", "/home/u/.gitconfig!"},
    "git config user.name x": {"/w/config!", "/w/user.name!", "/w/x!"},
    "git config --get a.b": {"/w/config!", "/w/a.b!"},
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")


@pytest.mark.parametrize("command", NAMES)
def test_the_paths_that_a_command_names(command: str) -> None:
    reading = read(command, CWD)
    assert reading.parsed, reading.unreadable
    assert named(reading) == NAMES[command]


READ_ONLY = """
ls
ls -la src
git status --short
git log --oneline -5 -- src
git diff HEAD~1
git -C sub --no-pager show HEAD:f
git branch -a
git branch
git stash list
git remote -v
rg -n foo src
grep -r 'a|b' .
cat a b | head -5 | wc -l
cd src && ls; pwd
ls > /dev/null 2>&1
find . -name '*.py' -type f
sed -n 5,10p file
sort a | uniq -c
/bin/ls /usr/bin
jq .a f.json
echo hello
! grep -q x f
date +%s
tree -L 2
"""

NOT_READ_ONLY = """
test -v 'a[$(touch x)]'
[ -R 'a[$(touch x)]' ]
printf -v 'a[$(touch x)]' x
printf -va x
rm x
ls > out
ls >> out
cat $X
cat $(ls)
cat `ls`
cat <(ls)
echo ${X:=1}
X=1 ls
X=1
LD_PRELOAD=x ls
find . -delete
find . -exec rm {} +
find . -ok rm {} +
find . -fprint out
git diff --output=x
git diff --outp=x
git log --ext-diff
git grep -Oless x
git grep --open=less x
git commit -m x
git branch new
git branch -D x
git tag v1
git stash
git remote add x y
git -c core.pager=x log
git
sort -o out in
sort -ro out in
sort --outp=out in
sort --compress-program=x in
sort *
sort ?o
find *
rg --pre=x foo
rg --pre x foo
tree -o out
uniq in out
sed -i s/a/b/ f
sed -n 'w out' f
sed s/a/b/ f
awk 1 f
xargs rm
sudo ls
env ls
./ls
/tmp/ls
ls & rm x
ls &
ls; rm x
ls() { rm x; }; ls
if true; then ls; fi
(ls)
eval ls
bash -c ls
python x.py
npm test
date 01010101
date -s now
hostname evil
cat <<E
ls (
"""


@pytest.mark.parametrize("command", READ_ONLY.strip().split("\n"))
def test_what_only_reads_is_told(command: str) -> None:
    assert read(command, CWD).read_only


@pytest.mark.parametrize("command", ["", "# nothing", *NOT_READ_ONLY.strip().split("\n")])
def test_what_may_do_more_than_read_is_not_taken_for_reading(command: str) -> None:
    assert not read(command, CWD).read_only


SCOPES: dict[str, tuple[str | None, ...]] = {
    "git commit -m x": ("git commit",),
    "git -C sub commit": ("git commit",),
    "git -c core.pager=x log": ("git -c",),
    "npm run build && npm test": ("npm run build", "npm test"),
    "rm -rf x": ("rm",),
    "python -m pytest -q": ("python -m pytest",),
    "python3.11 x.py": ("python3.11 x.py",),
    "python -c 'print(1)'": (None,),
    "python": (None,),
    "bash -c 'git push'": (None, "git push"),
    "bash x.sh": ("bash x.sh",),
    "eval git push": ("eval", "git push"),
    "eval $X": (None,),
    "$X y": (None,),
    "sudo -u bob git push": ("sudo", "git push"),
    "GIT_SSH_COMMAND=x git fetch": ("GIT_SSH_COMMAND= git fetch",),
    "./git push": ("./git push",),
    "find . -exec rm {} +": ("find", "rm"),
    "ls | xargs -n1 git add": ("ls", "xargs", "git add"),
    "timeout -s KILL 5 nice make all": ("timeout", "nice", "make all"),
    "docker run -v .:/x img": ("docker run",),
    "'a && git push' x": (None,),
}


@pytest.mark.parametrize("command", SCOPES)
def test_what_an_always_would_cover(command: str) -> None:
    assert read(command, CWD).scopes == SCOPES[command]


@pytest.mark.parametrize(
    "command",
    [
        *("foo(", "ls 'x", "cat <<", "echo a\rb", "a\0b", f"a{SURROGATE}", "x" * 40_000, "a|" * 3000),
        *("((" * 500, "$(" * 1000, "bash -c 'bash -c \"ls (\"'", "a&&" * 400 + "a", "cd a;" * 20),
        "cat " + " ".join(f"f{i}" for i in range(2000)),
    ],
)
def test_what_cannot_be_read_says_so(command: str) -> None:
    reading = read(command, CWD)
    assert not reading.parsed
    assert reading.unreadable
    assert not reading.read_only


@pytest.mark.parametrize(
    "command",
    [
        "(setsid sleep 1 &) ; nohup sleep 1 & sleep 1",
        "echo s >> s.txt; sleep 18",
        "touch t2",
        "for i in 1 2 3; do echo $i; done",
        "cat > f.py <<'EOF'\nx = {'a': 1}\nif x | y:\n    pass\nEOF\npython f.py",
        "git commit -m \"$(cat <<'EOF'\nfix: a thing\nEOF\n)\"",
        'while true; do if [[ "$x" =~ ^a ]]; then break; fi; done',
    ],
)
def test_ordinary_commands_are_read_and_stay_inside(command: str) -> None:
    reading = read(command, CWD)
    assert reading.parsed, reading.unreadable
    assert all(path.lstrip("!").startswith("/w") for path in named(reading))


_PIECES = st.sampled_from(
    [
        *(
            "a",
            "|",
            "&&",
            "||",
            ";",
            "(",
            ")",
            "{ ",
            "} ",
            "$(",
            "`",
            "'",
            '"',
            "<",
            "<<",
            "<<A\n",
            "\n",
            "${",
        ),
        *(
            "}",
            "[[ ",
            "]] ",
            "$((",
            "))",
            "if ",
            "fi ",
            "a=",
            "&",
            "case x in ",
            "esac ",
            "*",
            "#",
            "\\",
            "do ",
        ),
        *(
            "for x in ",
            "done ",
            ">",
            "<(",
            "-",
            "$",
            "cd ",
            "/etc",
            "eval ",
            "bash -c ",
            "{a,b}",
            "$'",
            "\\x41",
        ),
        *(
            "sudo ",
            "find ",
            "-exec ",
            ";; ",
            "then ",
            SURROGATE,
            "\0",
            "..",
            "/",
            "${x:-",
            "<<<",
            "&>",
            "é",
            " ",
        ),
    ]
)


@settings(deadline=None)
@given(st.lists(_PIECES, max_size=40).map("".join))
def test_nothing_that_a_model_writes_makes_the_reading_fail(command: str) -> None:
    reading = read(command, CWD)
    assert all(path.path.startswith("/") for path in reading.paths)


@settings(deadline=None, max_examples=15)
@given(st.lists(_PIECES, min_size=1, max_size=3).map("".join))
def test_reading_is_bounded_in_time(piece: str) -> None:
    started = time.monotonic()
    read(piece * (32_000 // len(piece)), CWD)
    # About ten times what it takes: other tests run beside this one.
    assert time.monotonic() - started < 10
