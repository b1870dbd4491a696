# SPDX-License-Identifier: Apache-2.0
"""`defib completion SHELL`: the real bash, zsh and fish offer every command and every option.

What must be offered is read from --help; a shell answers all requests in one process.
"""

import re
import shutil
import subprocess

import pytest

from harness.program import BIN, ROOT, Program
from harness.waiting import patience

CONFIG = """
databases:
  - {name: main, url: "${NOBODY_SET_THIS}"}
watches:
  - {name: pages, table: pages}
  - {name: mails, table: mail.outbox}
sinks:
  - {name: ops, type: log}
"""
MARK = "@@next"

# One request per line: the words so far, separated by spaces; the last one is being typed.
BASH = r"""
source /dev/stdin < <(defib completion bash)
while IFS= read -r COMP_LINE; do
	COMP_WORDS=() COMPREPLY=() COMP_POINT=${#COMP_LINE}
	# As readline does it: = and : are words of their own.
	spaced=${COMP_LINE//=/ = } spaced=${spaced//:/ : }
	read -ra COMP_WORDS <<< "$spaced"
	[[ $spaced != *' ' || $COMP_LINE == *[=:] ]] || COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_defib
	printf '%s\n' "${COMPREPLY[@]}" @@next
done < questions
"""

FISH = r"""
defib completion fish | source
while read -l line
	complete -C "$line"
	echo @@next
end < questions
"""

# zsh completes on a terminal only: a hidden one, in which compadd says what it is given.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
read_until() {
	local said got=
	while [[ $got != *$1* ]] && zpty -r z said; do got+=$said; done
	print -r -- "$got"
}
zpty -w z 'PS1= PS2= RPS1=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -D -u'
zpty -w z 'eval "$(defib completion zsh)"'
zpty -w z 'compadd() { local -a offered; builtin compadd -O offered "$@"
  [[ -z $offered ]] || print -rl -- "<<"$^offered">>" >> answers; }'
# One key asks, answers and clears the line: nothing is typed ahead, which zsh would heed.
zpty -w z 'ask() { zle complete-word; print @@next >> answers; BUFFER=; print @@"asked"; }'
zpty -w z 'zle -N ask; bindkey "^I" ask; LISTMAX=100000; setopt no_list_beep no_menu_complete'
zpty -w z 'print @@"ready"'
read_until @@ready > /dev/null
while IFS= read -r line; do
	zpty -w -n z "$line"$'\t'
	read_until @@asked > /dev/null
done < questions
zpty -d z
cat answers
"""


def bare(word):
    return re.sub(r"^<<(.*)>>$", r"\1", word.split("\t")[0]).replace("\\:", ":")


class Shell:
    """ask({…}): what the shell offers for each line, as a set of words."""

    def __init__(self, name, script, folder):
        self.argv = [shutil.which(name), *{"bash": ("--norc",), "zsh": ("-f",),
                                           "fish": ("--no-config",)}[name], "-c", script]
        self.dir = folder

    def ask(self, lines):
        (self.dir / "questions").write_text("".join(line + "\n" for line in lines))
        (self.dir / "answers").write_text("")
        env = Program(self.dir)._env({"PATH": f"{self.dir}/bin:/usr/bin:/bin", "TERM": "dumb",
                                      "LC_ALL": "C.UTF-8"})
        ran = subprocess.run(self.argv, cwd=self.dir, env=env, capture_output=True, text=True,
                             timeout=patience(), stdin=subprocess.DEVNULL)
        answers = ran.stdout.split(MARK + "\n")[:-1]
        assert len(answers) == len(lines), ran.stdout + ran.stderr
        return [{bare(w) for w in answer.splitlines() if w} for answer in answers]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    own = tmp_path_factory.mktemp("shells")
    (own / "bin").mkdir()
    (own / "bin" / "defib").symlink_to(BIN)
    (own / "defib.yaml").write_text(CONFIG)
    (own / "other.yaml").write_text("watches: [{name: elsewhere, table: t}]\n")
    return own


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request, folder):
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} here: scripts/setup test installs it")
    return Shell(request.param, {"bash": BASH, "zsh": ZSH, "fish": FISH}[request.param], folder)


@pytest.fixture(scope="module")
def table(folder):
    """Every command, with the word of its group if it has one, and its options: as help has it."""
    program = Program(folder)
    listed = program("help", "--all").out.split("Everywhere:")[0]
    names = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", listed, re.M)
    return {name: set(re.findall(r"^  (--[\w-]+)", program("help", *name.split()).out, re.M))
            for name in names}


def test_every_command_and_every_option_is_offered(shell, table):
    groups = {name.split()[0] for name in table if " " in name}
    top, *rest = shell.ask(["defib ", *(f"defib {group} " for group in sorted(groups)),
                            *(f"defib {name} --" for name in table)])
    # What is part of another command is not offered before it is begun.
    assert top == {name for name in table if " " not in name} - {"explain", "stats"} | groups
    for group, offered in zip(sorted(groups), rest):
        assert {f"{group} {word}" for word in offered} == \
            {name for name in table if name.startswith(f"{group} ")}
    for (name, wanted), offered in zip(table.items(), rest[len(groups):]):
        assert wanted <= offered, name


def test_words_come_from_the_tables_and_names_from_the_configuration(shell):
    lines = {
        "defib pau": {"pause"},
        "defib lear": {"learn"},
        "defib expl": {"explain"},
        "defib tune w": {"whatif"},
        "defib db sql p": {"pages"},
        "defib tune raise --b": {"--by"},
        "defib help tune r": {"raise"},
        "defib scan ": {"pages", "mails", "queue"},
        "defib scan pages m": {"mails"},
        "defib -c other.yaml scan ": {"elsewhere", "queue"},
        "defib scan --config other.yaml e": {"elsewhere"},
        "defib show p": {"pages/"},
        "defib alert test --sink ": {"ops"},
        "defib scan --remedy re": {"requeue", "retry", "report"},
        "defib report --format ": {"text", "markdown", "html", "json"},
        "defib ledger --event HE": {"HELD"},
        "defib list --where verdict=si": {"verdict=silent"},
        "defib list --where state=q": {"state=queued"},
        "defib list --sort ": {"key", "age", "state"},
        "defib scan --color ": {"auto", "always", "never"},
        "defib scan --color=al": {"--color=always"},
        "defib force --action f": {"force", "fail"},
        "defib config ": {"check", "show", "docs", "metrics", "presets"},
        "defib completion ": {"bash", "zsh", "fish"},
        "defib help whati": {"whatif"},
        "defib scan --time-type ep": {"epoch", "epoch_ms"},
        "defib --db m": {"main"},
        "defib nonsense ": set(),
        "defib work -- oth": {"other.yaml"},
        "defib -c oth": {"other.yaml"},
        "defib deploy cron --output bi": {"bin/"},
    }
    for (line, wanted), offered in zip(lines.items(), shell.ask(lines)):
        # What is replaced is the whole word, or with bash what stands behind the =.
        ends = {w.split("=")[-1].rstrip("/") for w in wanted}
        assert {w.split("=")[-1].rstrip("/") for w in offered} == ends, line


def test_completing_needs_no_database_and_no_valid_configuration(folder, tmp_path):
    program = Program(tmp_path)
    ask = ("completion", "words", "--", "scan", "")
    assert program(*ask).out == "queue\tthe built-in queue\n"
    config = "databases: [{url: 'postgres://nobody@192.0.2.1/x'}]\n" \
             "watches: [{name: pages}, {nonsense: 1}, 7, {name: \"a\\nb\"}]\n"
    (tmp_path / "defib.yaml").write_text(config)
    ran = program(*ask)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "pages\t\nqueue\tthe built-in queue\n"
    (tmp_path / "defib.yaml").write_text("{ not yaml")
    assert program(*ask).out == "queue\tthe built-in queue\n"


def test_a_shell_that_is_unknown_is_refused_with_the_nearest(folder):
    ran = Program(folder)("completion", "bsh")
    assert (ran.code, ran.err) == (2, 'defib: there is no shell "bsh"; did you mean "bash"?\n')


def test_the_scripts_that_are_installed_are_those_that_are_printed(folder):
    for shell, file in (("bash", "defib.bash"), ("zsh", "_defib"), ("fish", "defib.fish")):
        assert Program(folder)("completion", shell).out == \
            (ROOT / "completions" / file).read_text()
