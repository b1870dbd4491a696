# SPDX-License-Identifier: Apache-2.0
"""The pages of examples/: their sections, the tests they name, and their compose files.

No container engine runs here: docker-compose reads the files, and what they start, mount and set is
looked up."""

import ast
import json
import re
import subprocess

import pytest
import yaml

from harness.deployment import apt_packages
from harness.example_systems import EXAMPLES
from harness.program import BIN, ROOT
from harness.shell_pages import type_all
from harness.waiting import patience

PAGES = COMPOSED = ["ocr", "octolab", "ruvon"]
SECTIONS = ["What goes wrong today", "Five minutes", "Configuration line by line",
            "Privileges and processes", "In containers", "Verification of the document"]


def page(name):
    return (EXAMPLES / name / "README.md").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_sections_in_order(name):
    assert re.findall(r"^## (.*)", page(name), re.M) == SECTIONS


@pytest.mark.parametrize("name", PAGES)
def test_every_test_that_a_page_names_exists(name):
    table = page(name).partition("## Verification of the document")[2]
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(test_\w+)\.py::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            tree = ast.parse(next((ROOT / "tests").rglob(f"{file}.py")).read_text())
            assert test in {node.name for node in tree.body if hasattr(node, "name")}, (file, test)


def test_pages_are_got_by_the_same_commands():
    """make proof types them."""
    got = {re.search(r"```sh get\n(.*?)cd examples", page(name), re.S)[1] for name in PAGES
           if "```sh get" in page(name)}
    assert len(got) == 2  # for Python, and for Node.js


@pytest.mark.proof
def test_the_commands_that_get_it_work(tmp_path):
    """A clone, a build, the packages; what is committed counts."""
    lines = re.search(r"```sh get\n(.*?)```", page("ruvon"), re.S)[1].splitlines()
    node = re.search(r"```sh get\n(.*?)```", page("ocr"), re.S)[1].splitlines()
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEFIB_REPO": str(ROOT),
           "DEFIB_INSTALL": "no"}
    asked = ["defib --version", "python3 -c 'import defib; print(defib.Step)'", "pwd", "cd ../..",
             node[-1], "ls app/node_modules/defib/package.json app/node_modules/pg/package.json"]
    for command, code, said in type_all(lines + asked, tmp_path, env, timeout=patience()):
        assert code == 0, f"{command}\n{said}"


def test_the_table_of_lines_is_counted():
    ran = subprocess.run([ROOT / "scripts" / "project" / "adoption.py", "--check"], capture_output=True,
                         text=True, timeout=patience(), check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


# ---- compose files

def composed(name):
    """As docker-compose understands the file."""
    ran = subprocess.run(["docker-compose", "-f", EXAMPLES / name / "compose.yaml", "config"],
                         capture_output=True, text=True, timeout=patience(), check=False)
    assert ran.returncode == 0, ran.stderr
    return yaml.safe_load(ran.stdout)["services"]


@pytest.fixture(params=COMPOSED)
def services(request):
    return request.param, composed(request.param)


def commands_of(service):
    """Each command of a service, without the shell around several."""
    given = service.get("command") or []
    if given[:2] == ["sh", "-c"]:
        return [part.split() for part in given[2].split("&&")]
    return [given] if given else []


def check_command(app, command):
    if command[0] == "defib":
        told = subprocess.run([BIN, "help", command[1]], capture_output=True, text=True,
                              timeout=patience(), check=False)
        assert told.returncode == 0, command
        assert all(word in told.stdout for word in command[2:] if word.startswith("--")), command
    elif command[:2] == ["python3", "-m"]:
        assert command[2] in ("celery", "uvicorn"), command
        target = command[command.index("-A") + 1] if "-A" in command else command[3].split(":")[0]
        assert (app / f"{target}.py").exists(), command
    elif command[0] in ("python3", "node"):
        assert (app / command[1]).exists(), command
    else:
        assert command[0] == "chown", command


def test_every_command_of_a_compose_file_exists(services):
    name, found = services
    commands = [one for service in found.values() for one in commands_of(service)]
    assert len(commands) >= 2
    for command in commands:
        check_command(EXAMPLES / name / "app", command)


def test_what_a_compose_file_builds_mounts_and_sets_exists(services):
    name, found = services
    folder = EXAMPLES / name
    known = "".join(path.read_text() for path in [folder / "defib.yaml", *folder.glob("app/*.py"),
                                                  *folder.glob("app/*.js")])
    for service in found.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("/") or (ROOT / source).exists(), volume
        for variable in service.get("environment", {}):
            assert variable.startswith("POSTGRES_") or variable in known, variable
        if "build" in service:
            build = service["build"]
            text = (ROOT / build["dockerfile"]).read_text()
            assert re.search(rf"^FROM \w+ AS {build['target']}$", text, re.M)
            assert service["working_dir"] == f"/srv/example/{name}/app"


# ---- the image of the programs

def steps(word):
    text = (EXAMPLES / "Containerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1)[1] for line in text.splitlines() if line.startswith(f"{word} ")]


def test_the_image_copies_and_installs_what_there_is():
    for line in steps("COPY"):
        words = [word for word in line.split() if not word.startswith("--chown")]
        if not words[0].startswith("--from="):
            assert all((ROOT / source).exists() for source in words[:-1]), line
    build, base, python, _ = [step for step in steps("RUN") if "apt-get install" in step]
    setup = (ROOT / "scripts/setup").read_text()
    packages = set(re.search(r'build_packages="([^"]*)"', setup)[1].split())
    tests = set(re.search(r'test_packages="([^"]*)"', setup, re.S)[1].split())
    wheel = {"python3-setuptools", "python3-pip", "python3-wheel"}
    assert apt_packages(build) == packages | {"make"} | wheel
    shipped = (ROOT / "deploy/container/Containerfile").read_text().replace("\\\n", " ")
    assert apt_packages(base) == apt_packages(shipped[shipped.rindex("RUN apt-get"):])
    assert apt_packages(python) - {"python3"} <= tests


def test_the_library_is_where_the_image_takes_it_from():
    installed = json.loads(subprocess.run(["meson", "introspect", "--installed", BIN.parent],
                                          capture_output=True, text=True, timeout=patience(),
                                          check=True).stdout)
    assert [to for to in installed.values()
            if re.fullmatch(r"/usr/local/lib/\w+-linux-gnu/libdefib\.so\.0\S*", to)]
