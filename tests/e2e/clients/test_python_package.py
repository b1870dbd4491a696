# SPDX-License-Identifier: Apache-2.0
"""The Python package against the header, and as it is installed."""

import json
import re
import shutil
import subprocess
import zipfile

import pytest

from harness.program import BIN, ROOT
from harness.python_package import package, run  # noqa: F401

pytestmark = pytest.mark.plain
HEADER = (ROOT / "include" / "defib.h").read_text()

LAYOUT = """
import ctypes, json
from defib import _library as c

def c_name(kind):
    return "defib_" + "".join("_" + x.lower() if x.isupper() else x for x in kind.__name__).strip("_")

structs = {c_name(kind): {"sizeof": ctypes.sizeof(kind),
                          **{name: [getattr(kind, name).offset, getattr(kind, name).size]
                             for name, _ in kind._fields_}}
           for kind in vars(c).values() if isinstance(kind, type)
           and issubclass(kind, ctypes.Structure) and getattr(kind, "_fields_", None)}

def word(kind):
    if kind is None:
        return "void"
    if kind in (ctypes.c_char_p, ctypes.c_void_p):
        return {ctypes.c_char_p: "text", ctypes.c_void_p: "handle"}[kind]
    if issubclass(kind, ctypes._CFuncPtr):
        return "call"
    if issubclass(kind, ctypes._Pointer):
        return "*" + word(kind._type_)
    if issubclass(kind, ctypes.Structure):
        return c_name(kind)
    return {"c_int": "int", "c_uint": "unsigned", "c_long": "int64_t",
            "c_ulong": "size_t"}[kind.__name__]

calls = {name: [word(returns), *map(word, takes)] for name, (returns, takes) in c.CALLS.items()}
print(json.dumps({"structs": structs, "calls": calls}))
"""


def bare(text):
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def public_structs():
    """Each with the names of its members."""
    found = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", bare(HEADER)):
        members = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", body)
        found[name] = [re.search(r"(\w+)(\[\d+\])?\s*$", one).group(1)
                       for line in members.split(";") if line.strip() for one in line.split(",")]
    return found


def c_word(declared):
    """A declaration of the header, as LAYOUT writes the type of ctypes."""
    declared = re.sub(r"\b(const|struct|enum)\b", "", declared).strip()
    if "(*" in declared or re.match(r"defib_(handler|finding_call)\b", declared):
        return "call"
    kind, stars = re.match(r"(\w+)((?:\s*\*)*)", declared).groups()
    depth = stars.count("*")
    if kind == "char":
        return "*" * (depth - 1) + "text"
    if depth and kind in ("void", "defib_db", "defib_job", "defib_worker", "defib_watches",
                          "defib_instance", "defib_beat", "pg_conn", "sqlite3"):
        return "*" * (depth - 1) + "handle"
    return "*" * depth + {"defib_err": "int", "defib_outcome": "int"}.get(kind, kind)


def public_calls():
    found = {}
    header = re.sub(r"^\s*#.*?(?<!\\)$", "", HEADER, flags=re.M | re.S)
    for returns, name, takes in re.findall(
            r"DEFIB_API (?:DEFIB_MUST_CHECK )?([\w \*]+?)(\w+)\(((?:[^()]|\([^()]*\))*)\);",
            bare(header)):
        given = [] if takes.strip() == "void" else re.split(r",\s*(?![^()]*\))", takes)
        found[name] = [c_word(returns), *map(c_word, given)]
    return found


def test_every_struct_is_laid_out_as_in_the_header(package, tmp_path):
    structs = public_structs()
    assert len(structs) > 10
    lines = [f'printf("{name} sizeof %zu 0\\n", sizeof({name}));' +
             "".join(f'printf("{name} {one} %zu %zu\\n", offsetof({name}, {one}), '
                     f'sizeof((({name} *)0)->{one}));' for one in members)
             for name, members in structs.items()]
    source = tmp_path / "layout.c"
    source.write_text("#include <defib.h>\n#include <stdio.h>\nint main(void) {" +
                      "\n".join(lines) + "return 0; }\n")
    run("gcc", f"-I{ROOT / 'include'}", source, "-o", tmp_path / "layout")
    real = {}
    for line in run(tmp_path / "layout").splitlines():
        name, member, at, size = line.split()
        one = real.setdefault(name, {})
        one[member] = int(at) if member == "sizeof" else [int(at), int(size)]
    assert json.loads(package.run(LAYOUT))["structs"] == real


def test_every_call_has_the_signature_of_the_header(package):
    calls = public_calls()
    assert set(calls) == set(re.findall(r"^DEFIB_API [^;(]*?\b(\w+)\(", HEADER, re.M))
    assert json.loads(package.run(LAYOUT))["calls"] == calls


def test_the_wheel_is_typed_and_has_nothing_compiled(package):
    with zipfile.ZipFile(package.wheel) as wheel:
        names = wheel.namelist()
    assert package.wheel.name == "defib-0.1.0-py3-none-any.whl"
    assert "defib/py.typed" in names
    assert [name for name in names if name.endswith((".so", ".pyd", ".c"))] == []


def test_the_package_has_the_version_of_the_header(package):
    assert package.run("from importlib.metadata import version\nfrom defib._library import lib\n"
                       "print(version('defib'), lib.defib_version().decode())"
                       ).split() == ["0.1.0", "0.1.0"]


def test_a_library_that_is_not_there_is_one_line(package):
    ran = subprocess.run([package.python, "-c", "import defib"], capture_output=True, text=True,
                         env=package.env(DEFIB_LIBRARY="/nowhere/libdefib.so"), check=False)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: libdefib cannot be loaded: /nowhere/libdefib.so: ")
    assert "set DEFIB_LIBRARY" in last


@pytest.mark.parametrize("where", ["home", "path"])
def test_the_library_is_found_where_make_install_put_it(package, tmp_path, where):
    """As README installs it: the system's loader does not search the user's own prefix."""
    env = package.env(HOME=str(tmp_path), PATH="/usr/bin:/bin")
    root = tmp_path / ".local" if where == "home" else tmp_path / "opt"
    run("/usr/bin/meson", "install", "-C", BIN.parent, "--no-rebuild", "--quiet", "--destdir",
        tmp_path / "made")
    made, = (tmp_path / "made").rglob("libdefib.so.0")
    prefix = made.parent
    while not (prefix / "bin").exists():
        prefix = prefix.parent
    shutil.copytree(prefix, root, symlinks=True)
    if where == "path":
        env.update(HOME="/nonexistent", PATH=f"{root / 'bin'}:/usr/bin:/bin")
    del env["DEFIB_LIBRARY"]
    said = subprocess.run([package.python, "-c", "import defib; from defib._library import lib; "
                           "print(lib._name)"], capture_output=True, text=True, env=env,
                          check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == str(root / made.relative_to(prefix))


def test_an_exception_says_what_to_do_next(package, tmp_path):
    """Where only the exception is seen: in a log, in a traceback."""
    said = package.run("""
import os
import defib
os.mkdir("open")
os.chmod("open", 0o777)
worker = defib.Worker("sqlite:x.db", spool="open")
worker.queue("a")(lambda job: None)
try:
    worker.run()
except defib.Error as why:
    print(why.next)
    print(why)
""", folder=tmp_path).splitlines()
    assert said[0] and said[1].endswith(f"; {said[0]}")


def test_a_forked_child_leaves_the_session_to_its_parent(package, tmp_path):
    """Also if another thread was in a call at the fork: that lock is never released."""
    said = package.run("""
import os
import defib
with defib.Database("sqlite:x.db", create=True) as database:
    database.init()
    database._lock.__enter__()
    child = os.fork()
    if child == 0:
        try:
            database.notify()
        except defib.Refused as why:
            os.write(1, f"{why}\\n".encode())
    else:
        database._lock.__exit__()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, database.enqueue("q", "k"), flush=True)
if child == 0:
    os._exit(7)
""", folder=tmp_path).splitlines()
    assert said == ["the session belongs to the process that forked this one; "
                    "open another one after the fork", "7 1"]


def test_an_error_is_an_exception_with_the_librarys_line(package, tmp_path):
    said = package.run("""
import defib
for make in (lambda: defib.Watches("/nowhere.yaml"),
             lambda: defib.Watches(yaml="watches: [{nam: a}]", url="sqlite:x.db"),
             lambda: defib.Database("postgres://127.0.0.1:1/none"),
             lambda: defib.Worker("sqlite:x.db").run(),
             lambda: defib.Watches()):
    try:
        make()
    except defib.Error as why:
        print(type(why).__name__, why.code, str(why).count("\\n"), str(why)[:60])
""", folder=tmp_path)
    lines = [line.split(None, 3) for line in said.splitlines()]
    assert [line[:3] for line in lines] == [
        ["ConfigError", "CONFIG", "0"], ["ConfigError", "CONFIG", "0"],
        ["ConnectionLost", "CONNECTION", "0"], ["UsageError", "USAGE", "0"],
        ["UsageError", "USAGE", "0"]]


@pytest.mark.proof
def test_the_types_of_the_package_are_sound(tmp_path):
    said = run("/usr/bin/mypy", "--strict", "--cache-dir", tmp_path,
               ROOT / "clients" / "python" / "defib")
    assert said.startswith("Success")
